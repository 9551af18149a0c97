// Which keys a row sees: the ends of its interval. Used by the prefill and decode kernels.
#pragma once

#include "kernels/cuda/attention/args.h"
#include "kernels/cuda/device/device.h"

namespace rondo::cuda {

RONDO_DEVICE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
RONDO_DEVICE int64_t Greatest(int64_t a, int64_t b) { return a > b ? a : b; }

// First key position that a query at `position` sees.
RONDO_DEVICE int64_t VisibleBegin(const MaskArgs& mask, int64_t position) {
  return mask.window > 0 ? Greatest(mask.visible_begin, position - mask.window + 1) : mask.visible_begin;
}

// One past the last.
RONDO_DEVICE int64_t VisibleEnd(const MaskArgs& mask, int64_t position) {
  if (mask.causal) return Least(mask.visible_end, position + 1);
  return mask.window > 0 ? Least(mask.visible_end, position + mask.window) : mask.visible_end;
}

// A position counted from the beginning of a run of keys and clamped into the run: 32 bits, of which the kernels carry
// many. A run holds fewer than 2^31 tokens.
RONDO_DEVICE int InRun(int64_t position, int64_t run_begin, int64_t run_tokens) {
  return static_cast<int>(Greatest(0, Least(position - run_begin, run_tokens)));
}

// From k or v to the row of a key and KV head; keys are counted from the run's first.
RONDO_DEVICE int64_t KeyOffset(const KeyArgs& keys, int key, int kv_head) {
  const int page = key >> keys.page_shift;
  const int64_t page_offset =
      keys.page_offsets != nullptr ? gpu::Load(keys.page_offsets + page) : page * keys.page_stride;
  return page_offset + kv_head * keys.head_stride + (key - (page << keys.page_shift)) * keys.row_stride;
}

// The part of a tile of keys that a row sees, counted from the tile's first key.
struct KeyInterval {
  int begin, end;
  RONDO_DEVICE bool Has(int key) const { return key >= begin && key < end; }
};

}  // namespace rondo::cuda
