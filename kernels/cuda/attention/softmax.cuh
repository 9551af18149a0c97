// The arithmetic of partials (m, l, o), the same in every CUDA attention kernel: the definition of a row's bits. The
// running maximum m is rounded up to an integer in units of log2, so that rescaling multiplies by a power of two and
// loses nothing: when a row's maximum rises, and in which tile, leaves no trace in its bits above underflow.
#pragma once

#include "kernels/cuda/device/device.h"

namespace rondo::cuda {

inline constexpr int kKeyTile = 64;              // keys a step of the running maximum; block starts are multiples
inline constexpr float kEmptyMax = -1048576.0f;  // -2^20, m of a row that saw nothing; scores below count as unseen
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

RONDO_DEVICE float MinusInfinity() { return gpu::FloatFromBits(0xff800000u); }

// 2^d for an integer d <= 0, exact; +0 below 2^-126. NaN (infinite scores) gives 0, and their l and o are NaN already.
RONDO_DEVICE float PowerOfTwo(float d) {
  const int exponent = static_cast<int>(gpu::Max(d, -127.0f));
  return gpu::FloatFromBits(static_cast<uint32_t>(exponent + 127) << 23);
}

// How two partials of one row join. A side with l == 0 is the identity: the other is kept bit for bit.
struct MergedRow {
  float m, l;
  float left_weight, right_weight;
  bool take_left, take_right;

  RONDO_DEVICE MergedRow(float left_m, float left_l, float right_m, float right_l) {
    take_right = left_l == 0.0f;
    take_left = right_l == 0.0f && !take_right;
    m = take_right ? right_m : take_left ? left_m : gpu::Max(left_m, right_m);
    left_weight = PowerOfTwo(left_m - m);
    right_weight = PowerOfTwo(right_m - m);
    l = Join(left_l, right_l);
  }

  RONDO_DEVICE float Join(float left, float right) const {
    if (take_right) return right;
    if (take_left) return left;
    return gpu::Fma(left, left_weight, right * right_weight);
  }
};

// What is stored of a sum: one zero and one NaN, so that bits do not tell which way they came about.
RONDO_DEVICE float Canonical(float x) { return x == x ? x + 0.0f : gpu::FloatFromBits(0x7fc00000u); }

// The end of a row: sinks join from the right, then out = o * inverse.
struct FinishedRow {
  float inverse;
  float lse;  // natural log

  RONDO_DEVICE FinishedRow(float m, float l, const float* sink) {
    float weight = 1.0f;
    if (sink != nullptr) {
      const float s = gpu::Load(sink) * kLog2E;
      if (s > MinusInfinity()) {  // -inf is no sink
        const float sink_m = gpu::Max(kEmptyMax, gpu::Ceil(s));
        const MergedRow joined(m, l, sink_m, gpu::Exp2(s - sink_m));
        weight = l == 0.0f ? 0.0f : joined.left_weight;
        m = joined.m;
        l = joined.l;
      }
    }
    inverse = l == 0.0f ? 0.0f : weight * gpu::Reciprocal(l);
    lse = l == 0.0f ? MinusInfinity() : (m + gpu::Log2(l)) * kLn2;
  }
};

}  // namespace rondo::cuda
