// Sixteen lanes as two AVX2 registers; operations as in simd/scalar.h. It runs the sixteen-lane (AVX-512) algorithm on
// AVX2 hosts, for tests of its arithmetic. Used by kernels/cpu/.
#pragma once

#include "kernels/cpu/simd/avx2.h"

namespace rondo::simd {
namespace {

struct Wide {
  static constexpr int kLanes = 16;
  struct F {
    __m256 lo, hi;
  };
  struct I {
    __m256i lo, hi;
  };
  struct M {
    __m256 lo, hi;
  };
  using H = Avx2;  // one half

  RONDO_SIMD F Zero() { return {H::Zero(), H::Zero()}; }
  RONDO_SIMD F Set(float x) { return {H::Set(x), H::Set(x)}; }
  RONDO_SIMD F Load(const float* p) { return {H::Load(p), H::Load(p + 8)}; }
  RONDO_SIMD void Store(float* p, F a) { H::Store(p, a.lo), H::Store(p + 8, a.hi); }
  RONDO_SIMD F Broadcast(const float* p) { return {H::Broadcast(p), H::Broadcast(p)}; }
  RONDO_SIMD F LoadPartial(const float* p, int n) {
    return {H::LoadPartial(p, n < 8 ? n : 8), n > 8 ? H::LoadPartial(p + 8, n - 8) : H::Zero()};
  }
  RONDO_SIMD void StorePartial(float* p, F a, int n) {
    H::StorePartial(p, a.lo, n < 8 ? n : 8);
    if (n > 8) H::StorePartial(p + 8, a.hi, n - 8);
  }
  RONDO_SIMD F LoadBf16(const uint16_t* p) { return {H::LoadBf16(p), H::LoadBf16(p + 8)}; }
  RONDO_SIMD F LoadHalves(const float* a, const float* b) { return {H::Load(a), H::Load(b)}; }
  RONDO_SIMD F LoadHalves(const uint16_t* a, const uint16_t* b) { return {H::LoadBf16(a), H::LoadBf16(b)}; }

  RONDO_SIMD F Add(F a, F b) { return {H::Add(a.lo, b.lo), H::Add(a.hi, b.hi)}; }
  RONDO_SIMD F Sub(F a, F b) { return {H::Sub(a.lo, b.lo), H::Sub(a.hi, b.hi)}; }
  RONDO_SIMD F Mul(F a, F b) { return {H::Mul(a.lo, b.lo), H::Mul(a.hi, b.hi)}; }
  RONDO_SIMD F Div(F a, F b) { return {H::Div(a.lo, b.lo), H::Div(a.hi, b.hi)}; }
  RONDO_SIMD F Sqrt(F a) { return {H::Sqrt(a.lo), H::Sqrt(a.hi)}; }
  RONDO_SIMD F Fma(F a, F b, F c) { return {H::Fma(a.lo, b.lo, c.lo), H::Fma(a.hi, b.hi, c.hi)}; }
  RONDO_SIMD void AddProduct(F& sum, F a, F b) { H::AddProduct(sum.lo, a.lo, b.lo), H::AddProduct(sum.hi, a.hi, b.hi); }
  RONDO_SIMD F Max(F a, F b) { return {H::Max(a.lo, b.lo), H::Max(a.hi, b.hi)}; }
  RONDO_SIMD F Min(F a, F b) { return {H::Min(a.lo, b.lo), H::Min(a.hi, b.hi)}; }
  RONDO_SIMD F Abs(F a) { return {H::Abs(a.lo), H::Abs(a.hi)}; }
  RONDO_SIMD F Ceil(F a) { return {H::Ceil(a.lo), H::Ceil(a.hi)}; }
  RONDO_SIMD F Round(F a) { return {H::Round(a.lo), H::Round(a.hi)}; }
  RONDO_SIMD M Less(F a, F b) { return {H::Less(a.lo, b.lo), H::Less(a.hi, b.hi)}; }
  RONDO_SIMD M Equal(F a, F b) { return {H::Equal(a.lo, b.lo), H::Equal(a.hi, b.hi)}; }
  RONDO_SIMD F Select(M m, F a, F b) { return {H::Select(m.lo, a.lo, b.lo), H::Select(m.hi, a.hi, b.hi)}; }
  RONDO_SIMD F SwapPairs(F a) { return {H::SwapPairs(a.lo), H::SwapPairs(a.hi)}; }

  RONDO_SIMD I SetI(int32_t x) { return {H::SetI(x), H::SetI(x)}; }
  RONDO_SIMD I Iota() { return {H::Iota(), H::AddI(H::Iota(), H::SetI(8))}; }
  RONDO_SIMD I LoadI(const int32_t* p) { return {H::LoadI(p), H::LoadI(p + 8)}; }
  RONDO_SIMD void StoreI(int32_t* p, I a) { H::StoreI(p, a.lo), H::StoreI(p + 8, a.hi); }
  RONDO_SIMD I AddI(I a, I b) { return {H::AddI(a.lo, b.lo), H::AddI(a.hi, b.hi)}; }
  RONDO_SIMD I SubI(I a, I b) { return {H::SubI(a.lo, b.lo), H::SubI(a.hi, b.hi)}; }
  RONDO_SIMD I AndI(I a, I b) { return {H::AndI(a.lo, b.lo), H::AndI(a.hi, b.hi)}; }
  RONDO_SIMD I OrI(I a, I b) { return {H::OrI(a.lo, b.lo), H::OrI(a.hi, b.hi)}; }
  template <int kBits>
  RONDO_SIMD I ShiftLeft(I a) {
    return {H::ShiftLeft<kBits>(a.lo), H::ShiftLeft<kBits>(a.hi)};
  }
  template <int kBits>
  RONDO_SIMD I ShiftRight(I a) {
    return {H::ShiftRight<kBits>(a.lo), H::ShiftRight<kBits>(a.hi)};
  }
  RONDO_SIMD M LessI(I a, I b) { return {H::LessI(a.lo, b.lo), H::LessI(a.hi, b.hi)}; }
  RONDO_SIMD M EqualI(I a, I b) { return {H::EqualI(a.lo, b.lo), H::EqualI(a.hi, b.hi)}; }
  RONDO_SIMD I SelectI(M m, I a, I b) { return {H::SelectI(m.lo, a.lo, b.lo), H::SelectI(m.hi, a.hi, b.hi)}; }

  RONDO_SIMD I AsInt(F a) { return {H::AsInt(a.lo), H::AsInt(a.hi)}; }
  RONDO_SIMD F AsFloat(I a) { return {H::AsFloat(a.lo), H::AsFloat(a.hi)}; }
  RONDO_SIMD I ToInt(F a) { return {H::ToInt(a.lo), H::ToInt(a.hi)}; }
  RONDO_SIMD F ToFloat(I a) { return {H::ToFloat(a.lo), H::ToFloat(a.hi)}; }

  RONDO_SIMD M And(M a, M b) { return {H::And(a.lo, b.lo), H::And(a.hi, b.hi)}; }
  RONDO_SIMD M Or(M a, M b) { return {H::Or(a.lo, b.lo), H::Or(a.hi, b.hi)}; }
  RONDO_SIMD bool Any(M a) { return H::Any(a.lo) || H::Any(a.hi); }

  RONDO_SIMD void Interleave(F a, F b, F& first, F& second) {
    H::Interleave(a.lo, b.lo, first.lo, first.hi), H::Interleave(a.hi, b.hi, second.lo, second.hi);
  }

  RONDO_SIMD void Transpose(F (&r)[16]) {
    __m256 top_left[8], top_right[8], bottom_left[8], bottom_right[8];
    for (int i = 0; i < 8; ++i) {
      top_left[i] = r[i].lo, top_right[i] = r[i].hi;
      bottom_left[i] = r[i + 8].lo, bottom_right[i] = r[i + 8].hi;
    }
    H::Transpose(top_left), H::Transpose(top_right), H::Transpose(bottom_left), H::Transpose(bottom_right);
    for (int i = 0; i < 8; ++i) {
      r[i] = {top_left[i], bottom_left[i]};
      r[i + 8] = {top_right[i], bottom_right[i]};
    }
  }
};

}  // namespace
}  // namespace rondo::simd
