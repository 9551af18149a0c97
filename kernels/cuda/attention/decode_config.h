// Sizes of the decode kernel for one element type and head size; used by the kernel, its launchers and tests.
#pragma once

#include "kernels/cuda/attention/decode_args.h"

namespace rondo::cuda {

// kStagesOfKeys: tiles of K and V in flight or in use. Three keep enough bytes on the way to use the memory's full rate
// with two CTAs a multiprocessor (of Hopper; at D = 128 an A100 holds one); at D = 256 two fill the shared memory of
// one.
template <class E, int D, int kStagesOfKeys, int kBlock = kDecodeBlockTokens>
struct DecodeConfig {
  using Element = E;
  static constexpr int kHeadDim = D;
  static constexpr int kStages = kStagesOfKeys;
  static constexpr int kBlockTokensOfTree = kBlock;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kCtasPerMultiprocessor = 2;
  static_assert(D % 16 == 0 && kBlock % 64 == 0 && kStages >= 2);
};

}  // namespace rondo::cuda
