// The two matrix products of a strip as register tiles over a vector type; used by the strip kernel, and replaced by
// assembly for AVX2 (register_tile_avx2.h). Leaf code.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/scalar.h"

namespace rondo::attention {
namespace {

inline constexpr int kStripVectors = 3;

// kRows x 3 accumulators. With 32 registers, 8 x 3 leaves room for three loads and the broadcasts are memory operands.
template <typename V, int kRowsPerTile>
struct RegisterTile {
  static constexpr int kRows = kRowsPerTile;
  static constexpr int kLanes = kStripVectors * V::kLanes;
  // Weights of so many keys are used at a time: 128 keys x 48 lanes are 24 KiB, which stay in an L1 of 48 KiB beside
  // the values while all of head_dim passes over them. It does not enter the bits.
  static constexpr int kPiece = 128;
  using F = typename V::F;

  // scores [kRows][kLanes] = keys [kRows][head_dim] . q [head_dim][kLanes], d ascending; max [kLanes] is raised to it.
  RONDO_SIMD void Scores(const float* q, const float* keys, int head_dim, float* scores, float* max) {
    F acc[kRows][kStripVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kStripVectors; ++c) acc[r][c] = V::Zero();
    }
    for (int d = 0; d < head_dim; ++d) {
      F x[kStripVectors];
      for (int c = 0; c < kStripVectors; ++c) x[c] = V::Load(q + d * kLanes + c * V::kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const F k = V::Set(keys[r * head_dim + d]);
        for (int c = 0; c < kStripVectors; ++c) acc[r][c] = V::Fma(k, x[c], acc[r][c]);
      }
    }
    for (int c = 0; c < kStripVectors; ++c) {
      F top = V::Load(max + c * V::kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        V::Store(scores + r * kLanes + c * V::kLanes, acc[r][c]);
        top = V::Max(acc[r][c], top);  // in this order NaN is passed over
      }
      V::Store(max + c * V::kLanes, top);
    }
  }

  // o [kRows][kLanes] += values [keys][kRows]^T . p [keys][kLanes], keys ascending; from 0 if kFirst, and + 0 at the
  // end if kLast.
  template <bool kFirst, bool kLast>
  RONDO_SIMD void Accumulate(const float* p, const float* values, int keys, float* o) {
    F acc[kRows][kStripVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kStripVectors; ++c) {
        acc[r][c] = kFirst ? V::Zero() : V::Load(o + r * kLanes + c * V::kLanes);
      }
    }
    for (int k = 0; k < keys; ++k) {
      F x[kStripVectors];
      for (int c = 0; c < kStripVectors; ++c) x[c] = V::Load(p + k * kLanes + c * V::kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const F v = V::Set(values[k * kRows + r]);
        for (int c = 0; c < kStripVectors; ++c) acc[r][c] = V::Fma(v, x[c], acc[r][c]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kStripVectors; ++c) {
        V::Store(o + r * kLanes + c * V::kLanes, kLast ? V::Add(acc[r][c], V::Zero()) : acc[r][c]);
      }
    }
  }
};

}  // namespace
}  // namespace rondo::attention
