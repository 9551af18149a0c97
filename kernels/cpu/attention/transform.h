// Soft cap and distance bias of scores over a vector type; used by the strip and few-rows kernels. Leaf code.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/definition.h"
#include "kernels/cpu/attention/score.h"
#include "kernels/cpu/simd/scalar.h"

namespace rondo::attention {
namespace {

RONDO_SIMD bool Transforms(const ScoreTransform& score) { return score.cap != 0 || score.slopes != nullptr; }

// cap * tanh(s / cap). With t = 2^x = w (1 + g), w a power of two, tanh is (1 - t) / (1 + t), and 1 - t is taken as
// (1 - w) - w g, which keeps small scores to their own precision and not only to that of the cap.
template <typename V>
RONDO_SIMD typename V::F SoftCap(typename V::F s, typename V::F cap, typename V::F rate) {
  using F = typename V::F;
  using I = typename V::I;
  const F magic = V::Set(12582912.0f);  // 1.5 * 2^23, as in Exp2
  const F one = V::Set(1.0f);
  const F x = V::Max(V::Set(kFlatTanh), V::Mul(V::Abs(s), rate));  // in this order NaN stays
  const F t = V::Add(x, magic);
  const F f = V::Sub(x, V::Sub(t, magic));
  F p = V::Set(kExp2Minus1[4]);
  p = V::Fma(p, f, V::Set(kExp2Minus1[3]));
  p = V::Fma(p, f, V::Set(kExp2Minus1[2]));
  p = V::Fma(p, f, V::Set(kExp2Minus1[1]));
  p = V::Fma(p, f, V::Set(kExp2Minus1[0]));
  const F w = V::AsFloat(V::AddI(V::template ShiftLeft<23>(V::AsInt(t)), V::SetI(127 << 23)));
  const F h = V::Mul(w, V::Mul(p, f));
  const F y = V::Mul(cap, V::Div(V::Sub(V::Sub(one, w), h), V::Add(V::Add(one, w), h)));
  const I sign = V::AndI(V::AsInt(s), V::SetI(INT32_MIN));
  return V::AsFloat(V::OrI(V::AsInt(y), sign));
}

// Adds the bias of keys `distance` away, either way.
template <typename V>
RONDO_SIMD typename V::F Bias(typename V::F s, typename V::F slope, typename V::I distance) {
  return V::Fma(slope, V::Abs(V::ToFloat(distance)), s);
}

}  // namespace
}  // namespace rondo::attention
