// Sizes of the sm_90a attention kernel for one element type and head size; used by the kernel, its launcher and tests.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attend_config.h"
#include "kernels/cuda/attention/attend_kernel.h"

namespace rondo::cuda {

// kBlock is kBlockTokens except in tests. Names shared with AttendConfig mean the same.
template <class E, int D, int kBlock = kBlockTokens>
struct HopperConfig {
  using Element = E;
  static constexpr int kHeadDim = D;
  static constexpr int kValueDim = D;
  static constexpr int kValueParts = 1;
  static constexpr int kWarpTiles = 1;
  static constexpr int kBlockTokensOfTree = kBlock;

  // Two warpgroups multiply, each 64 rows, what one wgmma takes; a third brings keys and values. One CTA fills a
  // multiprocessor: its registers, and most of its shared memory.
  static constexpr int kGroups = 2;
  static constexpr int kGroupThreads = 128;
  static constexpr int kGroupRows = 64;
  static constexpr int kRows = kGroups * kGroupRows;
  static constexpr int kRowThreads = kGroups * kGroupThreads;
  static constexpr int kThreads = kRowThreads + kGroupThreads;
  static constexpr int kRowWarps = kRowThreads / 32;
  static constexpr int kCtasPerMultiprocessor = 1;

  // Keys a product takes. A thread holds of its group D / 2 sums and a half or, as probabilities, a quarter of these.
  static constexpr int kTileKeys = D <= 128 ? 128 : 64;
  static constexpr int kHalfKeys = 64;  // copied at once: pages hold whole ones
  static constexpr int kHalves = kTileKeys / kHalfKeys;
  static constexpr int kStages = 2;     // tiles of K, and of V, that are being copied or used
  static constexpr int kItemSlots = 2;  // the item in work, and the next one, whose keys already come
  // The groups take turns at the tensor cores, and do their softmax while the other multiplies. At D = 256 a turn is
  // long and leaves little softmax to hide.
  static constexpr bool kTurns = D <= 128;

  // A thread's share after the launch's equal shares of 168 are dealt anew.
  static constexpr int kProducerRegisters = 56;
  static constexpr int kConsumerRegisters = 224;
  static_assert(kGroupThreads * kProducerRegisters + kRowThreads * kConsumerRegisters <= 65536);

  static constexpr int64_t kPendingFloats = int64_t{kRows} * kValueDim + int64_t{kRowThreads} * 4;
  static_assert(HopperHasHeadDim(D) && kBlock % kTileKeys == 0);
};

// Floats of scratch for `items` tiles of rows: pending nodes as in the sm_80 kernel, and a byte for each warp that
// holds rows of an item (work_list.cuh).
template <class C>
constexpr int64_t HopperScratchFloats(int64_t ctas, int64_t blocks, int64_t items) {
  return ScratchFloats<C>(ctas, blocks) + items * C::kRowWarps / 4;
}

}  // namespace rondo::cuda
