// Which sequence of a decode launch an item or a row belongs to.
#pragma once

#include "kernels/cuda/attention/decode_args.h"
#include "kernels/cuda/device/device.h"

namespace rondo::cuda {

// The last of `count` sequences that begins at or before `index`: the others that do are empty.
template <class Begin>
RONDO_DEVICE int LastBeginningBefore(int count, int64_t index, Begin begin) {
  int low = 0;
  int high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (begin(middle) <= index) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

RONDO_DEVICE int SequenceOfItem(const DecodeArgs& args, int64_t item) {
  return LastBeginningBefore(args.count, item, [&](int i) { return gpu::Load(&args.sequences[i].first_item); });
}
RONDO_DEVICE int SequenceOfRow(const DecodeArgs& args, int64_t row) {
  return LastBeginningBefore(args.count, row, [&](int i) { return gpu::Load(&args.sequences[i].first_row); });
}

}  // namespace rondo::cuda
