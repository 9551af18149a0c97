// The order in which tokens are preferred, as one 64-bit number a token: the greater the likelier, ties to the lowest
// id. Used by argmax and top-k, and by the host to read their answers.
#pragma once

#include "kernels/cuda/dense/args.h"
#include "kernels/cuda/dense/primitives.cuh"

namespace rondo::cuda {

inline constexpr uint64_t kNoToken = 0;  // below every token's

// High half: float bits made to rise with the value, 0xffffffff for NaN and +infinity, which no sound model gives: the
// answer then names the first such token. Low half: the complement of the id. -0 is 0.
RONDO_DEVICE uint64_t RankOf(float logit, uint32_t id) {
  const uint32_t bits = gpu::BitsFromFloat(logit + 0.0f);
  const bool sound = logit < gpu::FloatFromBits(0x7f800000u);
  const uint32_t rising = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{sound ? rising : 0xffffffffu} << 32 | uint32_t{~id};
}

}  // namespace rondo::cuda
