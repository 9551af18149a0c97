// The likeliest token of each row: one CTA a row, one pass. For greedy decoding, where TopK's sort would be wasted.
#pragma once

#include "kernels/cuda/dense/ranking.cuh"

namespace rondo::cuda {

inline constexpr int kArgmaxThreads = 1024;
inline constexpr int kArgmaxSharedBytes = kArgmaxThreads / 32 * 8;

RONDO_DEVICE uint64_t Likelier(uint64_t a, uint64_t b) { return a > b ? a : b; }

RONDO_DEVICE uint64_t LikeliestOfWarp(uint64_t mine) {
  RONDO_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) mine = Likelier(mine, gpu::ShuffleXor(mine, distance));
  return mine;
}

// The answers are ranks_out [rows]; ranks_in and k are not used.
RONDO_KERNEL(kArgmaxThreads, 1)
Argmax(RONDO_GRID_CONSTANT const TopKArgs args) {
  for (int64_t row = gpu::CtaIndex(); row < args.rows; row += gpu::CtaCount()) {
    uint64_t mine = kNoToken;
    for (int i = gpu::ThreadIndex(); i < args.count; i += kArgmaxThreads) {
      mine = Likelier(mine, RankOf(gpu::Load(args.logits + row * args.count + i), static_cast<uint32_t>(i)));
    }
    mine = LikeliestOfWarp(mine);
    if (gpu::LaneIndex() == 0) gpu::StoreShared(gpu::SharedMemory() + gpu::ThreadIndex() / 32 * 8, mine);
    gpu::CtaSync();
    if (gpu::ThreadIndex() < 32) {
      mine = LikeliestOfWarp(gpu::LoadShared<uint64_t>(gpu::SharedMemory() + gpu::LaneIndex() * 8));
      if (gpu::LaneIndex() == 0) gpu::Store(args.ranks_out + row, mine);
    }
    gpu::CtaSync();  // the next row overwrites the warps' tokens
  }
}

}  // namespace rondo::cuda
