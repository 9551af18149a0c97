// One lane's share of a packed tile and group of columns: codes as bf16 operands of the tensor core, exactly, and
// scales and minima as float. Used by MatMulFewRows.
#pragma once

#include "kernels/cuda/dense/packed_weight.h"
#include "kernels/cuda/dense/primitives.cuh"

namespace rondo::cuda {

// bf16 has seven fraction bits, so 0x4300 | n is 128 + n for n in [0, 128).
inline constexpr uint32_t kPairOf128 = 0x43004300u;

RONDO_DEVICE uint32_t WordOf(const gpu::Word4& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}
RONDO_DEVICE float HalfOf(uint32_t word, int i) { return gpu::FloatFromHalf(static_cast<uint16_t>(word >> 16 * i)); }

// Codes of the lane's row of one half tile. Pair(block, p): elements 8 * (lane % 4) + 2p and the next of that block.
template <WeightType kType>
struct PackedCodes {
  gpu::Word4 words[PackedType<kType>::kCodeWords];

  RONDO_DEVICE uint32_t Pair(int block, int p) const {
    if constexpr (kType == WeightType::kQ8_0) {
      const uint32_t bytes = WordOf(words[block / 2], block % 2 * 2 + p / 2) >> 8 * (p % 2);
      // A byte in two's complement is its low seven bits less 128 if the high one is set; 0x4380 is 256.
      return gpu::SubtractBf16Pairs((bytes & 0x007f007fu) | kPairOf128, (bytes & 0x00800080u) | kPairOf128);
    } else {
      const uint32_t nibbles = WordOf(words[0], block) >> 4 * p & 0x000f000fu;
      return gpu::SubtractBf16Pairs(nibbles | kPairOf128, kPairOf128);
    }
  }
};

// Scales of one row, for the four blocks of a group.
template <WeightType kType>
struct PackedScales;

template <>
struct PackedScales<WeightType::kQ4_1> {
  using Memory = gpu::Word4;
  gpu::Word4 words;
  RONDO_DEVICE PackedScales(const Memory& memory, int) : words(memory) {}
  RONDO_DEVICE float Scale(int block) const { return HalfOf(WordOf(words, block), 0); }
  RONDO_DEVICE float Minimum(int block) const { return HalfOf(WordOf(words, block), 1); }
};

template <>
struct PackedScales<WeightType::kQ8_0> {
  using Memory = uint64_t;
  uint64_t halves;
  RONDO_DEVICE PackedScales(const Memory& memory, int) : halves(memory) {}
  RONDO_DEVICE float Scale(int block) const { return gpu::FloatFromHalf(static_cast<uint16_t>(halves >> 16 * block)); }
  RONDO_DEVICE float Minimum(int) const { return 0.0f; }
};

// The head of a block is d, dmin and twelve bytes: a group is its sub-blocks 0..3 or 4..7. The six bits of four scales
// are taken apart at once, a byte each; docs/ALGORITHMS.md has where they come from.
template <>
struct PackedScales<WeightType::kQ4_K> {
  using Memory = gpu::Word4;
  float d, dmin;
  uint32_t scales, minima;
  RONDO_DEVICE PackedScales(const Memory& head, int group) : d(HalfOf(head.x, 0)), dmin(HalfOf(head.x, 1)) {
    if (group % 2 == 0) {
      scales = head.y & 0x3f3f3f3fu;
      minima = head.z & 0x3f3f3f3fu;
    } else {
      scales = (head.w & 0x0f0f0f0fu) | (head.y >> 2 & 0x30303030u);
      minima = (head.w >> 4 & 0x0f0f0f0fu) | (head.z >> 2 & 0x30303030u);
    }
  }
  RONDO_DEVICE float Scale(int block) const { return d * static_cast<float>(scales >> 8 * block & 0xff); }
  RONDO_DEVICE float Minimum(int block) const { return -(dmin * static_cast<float>(minima >> 8 * block & 0xff)); }
};

}  // namespace rondo::cuda
