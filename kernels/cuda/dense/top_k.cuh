// The likeliest k tokens of each row, in order. A CTA sorts a slice of kSlice ranks in shared memory and keeps its
// first k; rounds over what is left end when one slice a row is. With k = 64 a vocabulary of 128,000 takes three
// rounds. Ranks are unlike each other, so the answer is the same whatever the slices.
#pragma once

#include "kernels/cuda/dense/ranking.cuh"
#include "kernels/cuda/dense/top_k_rounds.h"

namespace rondo::cuda {

inline constexpr int kTopKThreads = 256;
inline constexpr int kTopKSharedBytes = kSlice * 8;

RONDO_DEVICE gpu::Shared RankAt(int i) { return gpu::SharedMemory() + static_cast<gpu::Shared>(i * 8); }

// Bitonic sort, greatest first. A step compares pairs `distance` apart, in runs of `run` that alternate in direction.
RONDO_DEVICE void SortSlice() {
  for (int run = 2; run <= kSlice; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      gpu::CtaSync();
      for (int pair = gpu::ThreadIndex(); pair < kSlice / 2; pair += kTopKThreads) {
        const int low = pair / distance * distance * 2 + pair % distance;
        const int high = low + distance;
        const auto a = gpu::LoadShared<uint64_t>(RankAt(low));
        const auto b = gpu::LoadShared<uint64_t>(RankAt(high));
        const bool greatest_first = (low & run) == 0;
        if ((a < b) == greatest_first) {
          gpu::StoreShared(RankAt(low), b);
          gpu::StoreShared(RankAt(high), a);
        }
      }
    }
  }
  gpu::CtaSync();
}

RONDO_KERNEL(kTopKThreads, 4)
TopK(RONDO_GRID_CONSTANT const TopKArgs args) {
  const int slices = TopKSlices(args.count);
  for (int64_t item = gpu::CtaIndex(); item < args.rows * slices; item += gpu::CtaCount()) {
    const int64_t row = item / slices;
    const int begin = static_cast<int>(item % slices) * kSlice;
    for (int i = gpu::ThreadIndex(); i < kSlice; i += kTopKThreads) {
      uint64_t rank = kNoToken;
      if (i < args.count - begin) {
        const int64_t at = row * args.count + begin + i;
        rank = args.ranks_in != nullptr ? gpu::Load(args.ranks_in + at)
                                        : RankOf(gpu::Load(args.logits + at), static_cast<uint32_t>(begin + i));
      }
      gpu::StoreShared(RankAt(i), rank);
    }
    SortSlice();
    for (int i = gpu::ThreadIndex(); i < args.k; i += kTopKThreads) {
      gpu::Store(args.ranks_out + item * args.k + i, gpu::LoadShared<uint64_t>(RankAt(i)));
    }
    gpu::CtaSync();  // the next slice overwrites this one
  }
}

}  // namespace rondo::cuda
