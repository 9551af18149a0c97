// Where a row of keys or values lies in a run of blocks: side by side, or in pages found by a table. Used by the
// prefill and decode kernels, which read tiles of 64 rows; a page holds whole tiles.
#pragma once

#include "kernels/cuda/attention/args.h"
#include "kernels/cuda/device/device.h"

namespace rondo::cuda {

// Elements from keys.k (or keys.v) to the row of key `key`, counted from the run's first, of head 0. Tests have blocks
// smaller than a page, which are pages then.
template <int kBlock>
RONDO_DEVICE int64_t KeyRowOffset(const KeyArgs& keys, int key) {
  constexpr int kPage = kBlock < kPageTokens ? kBlock : kPageTokens;
  const int page = key / kPage;
  const int64_t offset = keys.page_offsets != nullptr ? gpu::Load(keys.page_offsets + page) : page * keys.page_stride;
  return offset + key % kPage * keys.row_stride;
}

}  // namespace rondo::cuda
