// Attention of a few rows (decode), split over canonical blocks: one CTA takes one block, one KV head and up to 16
// rows, which are the query rows of a sequence times the heads that share the KV head. sm_80 and up.
//
// Over blocks of one size a row gets the bits AttendMma gives it: every number is the same function of the same numbers
// (scores.cuh, softmax.cuh), only other warps compute it. A tile of 64 keys is split over the four warps by keys for
// the scores, 16 each, and by columns of V for the sums.
#pragma once

#include "kernels/cuda/attention/decode_block.cuh"
#include "kernels/cuda/attention/sequences.cuh"

namespace rondo::cuda {

template <class C>
RONDO_KERNEL(C::kThreads, C::kCtasPerMultiprocessor)
DecodeMma(RONDO_GRID_CONSTANT const DecodeArgs args) {
  const int64_t item = gpu::CtaIndex();
  const DecodeSequence& sequence = args.sequences[SequenceOfItem(args, item)];
  const int group = args.q_heads / args.kv_heads;
  const int rows = static_cast<int>(sequence.query.rows) * group;
  const int row_tiles = (rows + kDecodeRows - 1) / kDecodeRows;
  // KV heads vary fastest, then tiles of rows, which read the same keys.
  int rest = static_cast<int>(item - sequence.first_item);
  const int kv_head = rest % args.kv_heads;
  rest /= args.kv_heads;
  const int begin = rest % row_tiles * kDecodeRows;
  const int end = begin + kDecodeRows < rows ? begin + kDecodeRows : rows;
  int step = end - begin;  // all rows at once; should that fail, all over again with one at a time
  for (int row = begin; row < end;) {
    DecodeBlock<C> block(args, sequence, rest / row_tiles, kv_head, row, step);
    if (block.Run()) {
      row += step;
    } else {
      step = 1;
    }
  }
}

}  // namespace rondo::cuda
