// Row operations of the dense seam over any vector type of kernels/cpu/simd: quantisation of activations, RMS norm,
// RoPE, gated activations, addition. One text for all instruction sets; docs/ALGORITHMS.md states the formulas.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/simd/scalar.h"
#include "rondo/dense_kernels.h"

namespace rondo {
namespace {

// Sixteen lanes kept as 16 / S::kLanes vectors; element i of a row belongs to lane i mod 16.
template <typename S>
struct SixteenLanes {
  static constexpr int kVectors = 16 / S::kLanes;
  typename S::F v[kVectors];

  // Lanes folded as 8 + 8, 4 + 4, 2 + 2, 1 + 1, the lower lane on the left.
  template <typename Function>
  float Fold(Function function) const {
    alignas(64) float lane[16];
    for (int i = 0; i < kVectors; ++i) S::Store(lane + i * S::kLanes, v[i]);
    for (int half = 8; half >= 1; half /= 2) {
      for (int i = 0; i < half; ++i) lane[i] = function(lane[i], lane[i + half]);
    }
    return lane[0];
  }
};

template <typename S>
void RmsNormRow(const float* x, const float* gain, float eps, int64_t cols, float* y) {
  using Lanes = SixteenLanes<S>;
  Lanes sum;
  for (int v = 0; v < Lanes::kVectors; ++v) sum.v[v] = S::Zero();
  int64_t i = 0;
  for (; i + 16 <= cols; i += 16) {
    for (int v = 0; v < Lanes::kVectors; ++v) {
      const typename S::F a = S::Load(x + i + v * S::kLanes);
      sum.v[v] = S::Fma(a, a, sum.v[v]);
    }
  }
  for (int v = 0; v < Lanes::kVectors && i < cols; ++v, i += S::kLanes) {
    const int n = static_cast<int>(cols - i < S::kLanes ? cols - i : S::kLanes);
    const typename S::F a = S::LoadPartial(x + i, n);
    sum.v[v] = S::Fma(a, a, sum.v[v]);  // idle lanes add +0 to a sum that is never -0
  }
  const float mean = sum.Fold([](float a, float b) { return a + b; }) / static_cast<float>(cols);
  const typename S::F factor = S::Set(1.0f / std::sqrt(mean + eps));
  for (i = 0; i + S::kLanes <= cols; i += S::kLanes) {
    S::Store(y + i, S::Mul(S::Mul(S::Load(x + i), factor), S::Load(gain + i)));
  }
  if (i < cols) {
    const int n = static_cast<int>(cols - i);
    S::StorePartial(y + i, S::Mul(S::Mul(S::LoadPartial(x + i, n), factor), S::LoadPartial(gain + i, n)), n);
  }
}

// e^x for x <= 0, relative error about 1e-7; +0 below -87 (before results become denormal). x = NaN gives +0.
template <typename S>
typename S::F ExpNegative(typename S::F x) {
  using F = typename S::F;
  const typename S::M flushed = S::Less(x, S::Set(-87.0f));
  const F a = S::Max(x, S::Set(-87.0f));
  const F n = S::Round(S::Mul(a, S::Set(1.44269504f)));
  // ln(2) in two floats; the high one has nine significant bits, so n * high is exact.
  F t = S::Fma(n, S::Set(-0.693359375f), a);
  t = S::Fma(n, S::Set(2.12194440e-4f), t);
  // Taylor to t^7; the next term is below 6e-9 on |t| <= ln(2) / 2.
  F p = S::Set(1.0f / 5040);
  p = S::Fma(p, t, S::Set(1.0f / 720));
  p = S::Fma(p, t, S::Set(1.0f / 120));
  p = S::Fma(p, t, S::Set(1.0f / 24));
  p = S::Fma(p, t, S::Set(1.0f / 6));
  p = S::Fma(p, t, S::Set(0.5f));
  p = S::Fma(p, t, S::Set(1.0f));
  p = S::Fma(p, t, S::Set(1.0f));
  const F scaled = S::AsFloat(S::AddI(S::AsInt(p), S::template ShiftLeft<23>(S::ToInt(n))));
  return S::Select(flushed, S::Zero(), scaled);
}

// x * sigmoid(z), with e = exp(-|z|): no overflow, and full relative precision at both ends.
template <typename S>
typename S::F TimesSigmoid(typename S::F x, typename S::F z) {
  using F = typename S::F;
  const F one = S::Set(1.0f);
  const F e = ExpNegative<S>(S::Sub(S::Zero(), S::Abs(z)));
  const F numerator = S::Select(S::Less(z, S::Zero()), e, one);
  return S::Mul(x, S::Div(numerator, S::Add(one, e)));
}

template <typename S>
typename S::F Activation(GateKind kind, typename S::F x) {
  using F = typename S::F;
  if (kind == GateKind::kSilu) return TimesSigmoid<S>(x, x);
  // 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
  const F cubic = S::Fma(S::Mul(x, x), S::Set(0.044715f), S::Set(1.0f));
  const F u = S::Mul(S::Mul(x, S::Set(1.5957691216057308f)), cubic);
  return TimesSigmoid<S>(x, u);
}

template <typename S>
void GateElements(GateKind kind, const float* gate, const float* up, int64_t elements, float* out) {
  int64_t i = 0;
  for (; i + S::kLanes <= elements; i += S::kLanes) {
    S::Store(out + i, S::Mul(Activation<S>(kind, S::Load(gate + i)), S::Load(up + i)));
  }
  if (i < elements) {
    const int n = static_cast<int>(elements - i);
    S::StorePartial(out + i, S::Mul(Activation<S>(kind, S::LoadPartial(gate + i, n)), S::LoadPartial(up + i, n)), n);
  }
}

template <typename S>
void AddElements(float* x, const float* y, int64_t elements) {
  int64_t i = 0;
  for (; i + S::kLanes <= elements; i += S::kLanes) S::Store(x + i, S::Add(S::Load(x + i), S::Load(y + i)));
  if (i < elements) {
    const int n = static_cast<int>(elements - i);
    S::StorePartial(x + i, S::Add(S::LoadPartial(x + i, n), S::LoadPartial(y + i, n)), n);
  }
}

// Pairs (a, b): a' = fma(a, cos, -(b sin)), b' = fma(b, cos, a sin).
template <typename S>
void RopeHalves(float* a, float* b, const float* cos, const float* sin, int32_t pairs) {
  for (int32_t i = 0; i < pairs; i += S::kLanes) {
    const int n = pairs - i < S::kLanes ? pairs - i : S::kLanes;
    const typename S::F x0 = S::LoadPartial(a + i, n), x1 = S::LoadPartial(b + i, n);
    const typename S::F c = S::LoadPartial(cos + i, n), s = S::LoadPartial(sin + i, n);
    S::StorePartial(a + i, S::Fma(x0, c, S::Sub(S::Zero(), S::Mul(x1, s))), n);
    S::StorePartial(b + i, S::Fma(x1, c, S::Mul(x0, s)), n);
  }
}

template <typename S>
void RopeRow(float* x, int32_t heads, int32_t head_dim, RopePairing pairing, const float* cos, const float* sin,
             int32_t rotated) {
  const int32_t pairs = rotated / 2;
  for (int32_t head = 0; head < heads; ++head, x += head_dim) {
    if (pairing == RopePairing::kHalves) {
      RopeHalves<S>(x, x + pairs, cos, sin, pairs);
      continue;
    }
    // Interleaved pairs: taken apart in chunks, which the compiler does with shuffles.
    constexpr int32_t kChunk = 64;
    float a[kChunk], b[kChunk];
    for (int32_t begin = 0; begin < pairs; begin += kChunk) {
      const int32_t n = pairs - begin < kChunk ? pairs - begin : kChunk;
      float* p = x + 2 * begin;
      for (int32_t i = 0; i < n; ++i) a[i] = p[2 * i], b[i] = p[2 * i + 1];
      RopeHalves<S>(a, b, cos + begin, sin + begin, n);
      for (int32_t i = 0; i < n; ++i) p[2 * i] = a[i], p[2 * i + 1] = b[i];
    }
  }
}

// Up to this maximum a block counts as zero: 127 / maximum stays finite, and no scale is denormal.
inline constexpr float kLargestZeroBlock = 1.0e-30f;

// As many blocks at a time as there are lanes, so that maxima and divisions are vertical.
template <typename S>
void QuantiseBlocks(const float* x, int64_t blocks, int8_t* codes, float* scale, float* scaled_sum,
                    int16_t* code_sums) {
  using F = typename S::F;
  constexpr int kLanes = S::kLanes;
  for (int64_t first = 0; first < blocks; first += kLanes) {
    const int count = static_cast<int>(blocks - first < kLanes ? blocks - first : kLanes);
    F max[kLanes], bad[kLanes];
    for (int b = 0; b < kLanes; ++b) {
      const float* p = x + (first + (b < count ? b : count - 1)) * 32;
      max[b] = bad[b] = S::Zero();
      for (int i = 0; i < 32; i += kLanes) {
        const F a = S::Load(p + i);
        max[b] = S::Max(S::Abs(a), max[b]);     // skips NaN
        bad[b] = S::Fma(a, S::Zero(), bad[b]);  // zero, or NaN once an element is infinite or NaN
      }
    }
    S::Transpose(max);
    S::Transpose(bad);
    F maximum = max[0], poison = bad[0];
    for (int i = 1; i < kLanes; ++i) {
      maximum = S::Max(max[i], maximum);
      poison = S::Add(bad[i], poison);
    }
    const typename S::M finite = S::Equal(poison, poison);
    const typename S::M usable = S::And(finite, S::Less(S::Set(kLargestZeroBlock), maximum));
    // A poisoned block makes its row NaN; its codes are zero so that the integer products stay exact.
    const F otherwise = S::Select(finite, S::Zero(), S::Set(std::bit_cast<float>(0x7fc00000u)));
    alignas(64) float scales[kLanes], inverse[kLanes];
    S::Store(scales, S::Select(usable, S::Div(maximum, S::Set(127.0f)), otherwise));
    S::Store(inverse, S::Select(usable, S::Div(S::Set(127.0f), maximum), S::Zero()));
    for (int b = 0; b < count; ++b) {
      const int64_t block = first + b;
      alignas(64) int32_t q[32] = {};
      if (inverse[b] != 0.0f) {
        const F factor = S::Set(inverse[b]);
        for (int i = 0; i < 32; i += kLanes) S::StoreI(q + i, S::ToInt(S::Mul(S::Load(x + block * 32 + i), factor)));
      }
      int32_t sum[2] = {0, 0};
      for (int i = 0; i < 16; ++i) sum[0] += q[i], sum[1] += q[i + 16];
      for (int i = 0; i < 32; ++i) codes[block * 32 + i] = static_cast<int8_t>(q[i]);
      scale[block] = scales[b];
      scaled_sum[block] = scales[b] * static_cast<float>(sum[0] + sum[1]);
      code_sums[2 * block] = static_cast<int16_t>(sum[0]);
      code_sums[2 * block + 1] = static_cast<int16_t>(sum[1]);
    }
  }
}

}  // namespace
}  // namespace rondo
