// Activation rows as operands of the tensor core, in the order of packed weights: eight rows by one block of 32 columns
// a warp, in bf16. Float32 rows are split into three bf16 parts that add up to them. Used by MatMulFewRows.
#pragma once

#include "kernels/cuda/dense/packed_weight.h"
#include "kernels/cuda/dense/primitives.cuh"

namespace rondo::cuda {

inline constexpr int kFewRows = 8;  // the n of mma.m16n8k16

template <class X>
struct RowFragments;

// Part(i)[p]: elements 8 * (lane % 4) + 2p and the next, of row lane / 4.
template <>
struct RowFragments<gpu::Bf16> {
  using Memory = uint16_t;
  static constexpr int kParts = 1;
  uint32_t part[kParts][4];

  RONDO_DEVICE void Load(const uint16_t* from, bool valid) {
    gpu::Word4 words = {0, 0, 0, 0};
    if (valid) words = gpu::Load(reinterpret_cast<const gpu::Word4*>(from));
    part[0][0] = words.x;
    part[0][1] = words.y;
    part[0][2] = words.z;
    part[0][3] = words.w;
  }
};

template <>
struct RowFragments<float> {
  using Memory = float;
  static constexpr int kParts = 3;  // 3 * 8 bits hold a float's 24
  uint32_t part[kParts][4];

  RONDO_DEVICE void Load(const float* from, bool valid) {
    gpu::Float4 quads[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    if (valid) {
      quads[0] = gpu::Load(reinterpret_cast<const gpu::Float4*>(from));
      quads[1] = gpu::Load(reinterpret_cast<const gpu::Float4*>(from) + 1);
    }
    RONDO_UNROLL
    for (int p = 0; p < 4; ++p) {
      const gpu::Float4& quad = quads[p / 2];
      float low = p % 2 == 0 ? quad.x : quad.z;
      float high = p % 2 == 0 ? quad.y : quad.w;
      RONDO_UNROLL
      for (int i = 0; i < kParts; ++i) {
        part[i][p] = gpu::Pack<gpu::Bf16>(low, high);
        low -= gpu::FloatFromBits(part[i][p] << 16);
        high -= gpu::FloatFromBits(part[i][p] & 0xffff0000u);
      }
    }
  }
};

}  // namespace rondo::cuda
