// p = 2^(s - m) and bf16 rounding over a vector type; used by the strip and few-rows kernels. Leaf code.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/definition.h"
#include "kernels/cpu/simd/scalar.h"

namespace rondo::attention {
namespace {

// m for a vector of maxima of unclamped scores (-inf where there was none). Never -0: which zero is the maximum of +0
// and -0 depends on the order they come in.
template <typename V>
RONDO_SIMD typename V::F IntegerMax(typename V::F max) {
  return V::Add(V::Ceil(V::Min(V::Max(max, V::Set(kMinScore)), V::Set(kMaxScore))), V::Zero());
}

// Lanes whose scores need no clamp: where m lies inside (kMinScore + 200, kMaxScore), raising s to m - 127 does what
// the clamp from below would do, and no s is above m.
template <typename V>
RONDO_SIMD typename V::M NeedsClamp(typename V::F max) {
  return V::Or(V::Less(max, V::Set(kMinScore + 200.0f)), V::Less(V::Set(kMaxScore), max));
}

template <typename V>
RONDO_SIMD typename V::F Clamp(typename V::F s) {
  return V::Min(V::Max(s, V::Set(kMinScore)), V::Set(kMaxScore));
}

// The weights of one maximum. The result may be a denormal that stands for +0: the compute threads run with DAZ, so
// every sum and product takes it for +0.
template <typename V>
struct Exp2 {
  using F = typename V::F;
  using I = typename V::I;

  RONDO_SIMD Exp2 For(F m) { return {V::Sub(m, V::Set(kFlushDepth)), V::ToInt(m)}; }

  [[gnu::always_inline]] inline F operator()(F s) const {
    // Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the low bits.
    const F magic = V::Set(12582912.0f);
    const F x = V::Max(s, floor);
    const F t = V::Add(x, magic);
    const F f = V::Sub(x, V::Sub(t, magic));
    F p = V::Set(kExp2[5]);
    p = V::Fma(p, f, V::Set(kExp2[4]));
    p = V::Fma(p, f, V::Set(kExp2[3]));
    p = V::Fma(p, f, V::Set(kExp2[2]));
    p = V::Fma(p, f, V::Set(kExp2[1]));
    p = V::Fma(p, f, V::Set(kExp2[0]));
    const I exponent = V::template ShiftLeft<23>(V::SubI(V::AsInt(t), m));
    return V::AsFloat(V::AddI(V::AsInt(p), exponent));
  }

  // The same of four vectors, step by step: a step of one fills the time another waits.
  [[gnu::always_inline]] inline void Four(F (&x)[4]) const {
    const F magic = V::Set(12582912.0f);
    F t[4], f[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) x[i] = V::Max(x[i], floor);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) t[i] = V::Add(x[i], magic);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) f[i] = V::Sub(x[i], V::Sub(t[i], magic));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) x[i] = V::Fma(V::Set(kExp2[5]), f[i], V::Set(kExp2[4]));
#pragma GCC unroll 4
    for (int j = 3; j >= 0; --j) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) x[i] = V::Fma(x[i], f[i], V::Set(kExp2[j]));
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const I exponent = V::template ShiftLeft<23>(V::SubI(V::AsInt(t[i]), m));
      x[i] = V::AsFloat(V::AddI(V::AsInt(x[i]), exponent));
    }
  }

  F floor;
  I m;
};

// x rounded to bf16, to nearest even, as a float; x is finite. Denormals become zero of the same sign.
template <typename V>
RONDO_SIMD typename V::F RoundToBf16(typename V::F x) {
  const typename V::I u = V::AsInt(x);
  const typename V::I odd = V::AndI(V::template ShiftRight<16>(u), V::SetI(1));
  const typename V::I rounded = V::AndI(V::AddI(u, V::AddI(odd, V::SetI(0x7fff))), V::SetI(-65536));
  const typename V::I sign = V::AndI(u, V::SetI(INT32_MIN));
  return V::AsFloat(V::SelectI(V::Less(V::Abs(x), V::Set(kSmallestNormal)), sign, rounded));
}

// As above for a weight: not negative.
template <typename V>
RONDO_SIMD typename V::F RoundWeightToBf16(typename V::F x) {
  const typename V::I u = V::AsInt(x);
  const typename V::I odd = V::AndI(V::template ShiftRight<16>(u), V::SetI(1));
  const typename V::I rounded = V::AndI(V::AddI(u, V::AddI(odd, V::SetI(0x7fff))), V::SetI(-65536));
  return V::AsFloat(V::SelectI(V::Less(x, V::Set(kSmallestNormal)), V::SetI(0), rounded));
}

// As above for any x: NaN stays a quiet NaN.
template <typename V>
RONDO_SIMD typename V::F RoundAnyToBf16(typename V::F x) {
  const typename V::I quiet = V::AndI(V::OrI(V::AsInt(x), V::SetI(0x400000)), V::SetI(-65536));
  return V::Select(V::Equal(x, x), RoundToBf16<V>(x), V::AsFloat(quiet));
}

// 2^d for an integer d <= 0; +0 below 2^-126.
template <typename V>
RONDO_SIMD typename V::F PowerOfTwo(typename V::F d) {
  const typename V::I bits = V::template ShiftLeft<23>(V::AddI(V::ToInt(d), V::SetI(127)));
  return V::Select(V::Less(d, V::Set(-126.0f)), V::Zero(), V::AsFloat(bits));
}

}  // namespace
}  // namespace rondo::attention
