// Sizes of the sm_80 attention kernels for one element type and head size; used by the kernels, their launchers and
// tests.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/args.h"

namespace rondo::cuda {

// kWarpTilesOfWarp: 16-row tiles a warp holds (attend_sizes.h). kBlock is kBlockTokens except in tests.
template <class E, int D, int kWarpTilesOfWarp, int kBlock = kBlockTokens>
struct AttendConfig {
  using Element = E;
  static constexpr int kHeadDim = D;
  // Columns of V that one CTA sums. D = 256 is shared by two CTAs, which both compute the scores: one alone would need
  // 128 registers for o and spill others.
  static constexpr int kValueDim = D <= 128 ? D : 128;
  static constexpr int kValueParts = D / kValueDim;
  static constexpr int kWarpTiles = kWarpTilesOfWarp;
  static constexpr int kBlockTokensOfTree = kBlock;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kRowThreads = kThreads;  // that hold rows, the first of the CTA
  static constexpr int kRows = kWarps * kWarpTiles * 16;
  static constexpr int kCtasPerMultiprocessor = 2;
  // A pending node: o, and m and l padded to a Float4 a lane and 16-row tile.
  static constexpr int64_t kPendingFloats = int64_t{kRows} * kValueDim + int64_t{kRowThreads} * kWarpTiles * 4;
  static_assert(D % 16 == 0 && D % kValueDim == 0 && kBlock % 64 == 0);
};

// The most nodes ever pending over a run of this many blocks: one for each bit of the blocks before, and one for the
// node that reaches out of the run to the left.
constexpr int MostPending(int64_t blocks) {
  int depth = 1;
  for (int64_t b = blocks - 1; b > 0; b >>= 1) ++depth;
  return depth;
}

// Floats of scratch for a launch of `ctas` CTAs over a run of `blocks` blocks: about ctas * log2(blocks) * rows * (D +
// 8).
template <class C>
constexpr int64_t ScratchFloats(int64_t ctas, int64_t blocks) {
  return ctas * MostPending(blocks) * C::kPendingFloats;
}

}  // namespace rondo::cuda
