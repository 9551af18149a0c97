// Sixteen lanes of float and int32 in one AVX-512 register; operations as in simd/scalar.h. Used by the translation
// units of kernels/cpu/ that are compiled with -mavx512f -mavx512bw -mavx512vl -mavx512dq and run only where CPUID and
// XGETBV say so.
#pragma once

// g++ 12 warns of uninitialised variables inside its own AVX-512 intrinsics.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

#include "kernels/cpu/simd/scalar.h"

namespace rondo::simd {
namespace {

struct Avx512 {
  static constexpr int kLanes = 16;
  using F = __m512;
  using I = __m512i;
  using M = __mmask16;

  RONDO_SIMD F Zero() { return _mm512_setzero_ps(); }
  RONDO_SIMD F Set(float x) { return _mm512_set1_ps(x); }
  RONDO_SIMD F Load(const float* p) { return _mm512_loadu_ps(p); }
  RONDO_SIMD void Store(float* p, F a) { _mm512_storeu_ps(p, a); }
  RONDO_SIMD F Broadcast(const float* p) { return Set(*p); }
  RONDO_SIMD M FirstLanes(int n) { return static_cast<M>((1u << n) - 1); }
  RONDO_SIMD F LoadPartial(const float* p, int n) { return _mm512_maskz_loadu_ps(FirstLanes(n), p); }
  RONDO_SIMD void StorePartial(float* p, F a, int n) { _mm512_mask_storeu_ps(p, FirstLanes(n), a); }
  RONDO_SIMD F LoadBf16(const uint16_t* p) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return AsFloat(ShiftLeft<16>(_mm512_cvtepu16_epi32(half)));
  }
  // The lower half of the lanes from a, the upper from b.
  RONDO_SIMD F LoadHalves(const float* a, const float* b) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(a)), _mm256_loadu_ps(b), 1);
  }
  RONDO_SIMD F LoadHalves(const uint16_t* a, const uint16_t* b) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    return AsFloat(ShiftLeft<16>(_mm512_cvtepu16_epi32(both)));
  }

  RONDO_SIMD F Add(F a, F b) { return _mm512_add_ps(a, b); }
  RONDO_SIMD F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  RONDO_SIMD F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  RONDO_SIMD F Div(F a, F b) { return _mm512_div_ps(a, b); }
  RONDO_SIMD F Sqrt(F a) { return _mm512_sqrt_ps(a); }
  RONDO_SIMD F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  RONDO_SIMD void AddProduct(F& sum, F a, F b) { sum = Fma(a, b, sum); }  // sum = Fma(a, b, sum)
  RONDO_SIMD F Max(F a, F b) { return _mm512_max_ps(a, b); }
  RONDO_SIMD F Min(F a, F b) { return _mm512_min_ps(a, b); }
  RONDO_SIMD F Abs(F a) { return AsFloat(_mm512_and_si512(AsInt(a), SetI(0x7fffffff))); }
  RONDO_SIMD F Ceil(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
  RONDO_SIMD F Round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  RONDO_SIMD M Less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  RONDO_SIMD M Equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  RONDO_SIMD F Select(M m, F a, F b) { return _mm512_mask_blend_ps(m, b, a); }
  RONDO_SIMD F SwapPairs(F a) { return _mm512_permute_ps(a, 0xb1); }

  RONDO_SIMD I SetI(int32_t x) { return _mm512_set1_epi32(x); }
  RONDO_SIMD I Iota() { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
  RONDO_SIMD I LoadI(const int32_t* p) { return _mm512_loadu_si512(p); }
  RONDO_SIMD void StoreI(int32_t* p, I a) { _mm512_storeu_si512(p, a); }
  RONDO_SIMD I AddI(I a, I b) { return _mm512_add_epi32(a, b); }
  RONDO_SIMD I SubI(I a, I b) { return _mm512_sub_epi32(a, b); }
  RONDO_SIMD I AndI(I a, I b) { return _mm512_and_si512(a, b); }
  RONDO_SIMD I OrI(I a, I b) { return _mm512_or_si512(a, b); }
  template <int kBits>
  RONDO_SIMD I ShiftLeft(I a) {
    return _mm512_slli_epi32(a, kBits);
  }
  template <int kBits>
  RONDO_SIMD I ShiftRight(I a) {
    return _mm512_srli_epi32(a, kBits);
  }
  RONDO_SIMD M LessI(I a, I b) { return _mm512_cmplt_epi32_mask(a, b); }
  RONDO_SIMD M EqualI(I a, I b) { return _mm512_cmpeq_epi32_mask(a, b); }
  RONDO_SIMD I SelectI(M m, I a, I b) { return _mm512_mask_blend_epi32(m, b, a); }

  RONDO_SIMD I AsInt(F a) { return _mm512_castps_si512(a); }
  RONDO_SIMD F AsFloat(I a) { return _mm512_castsi512_ps(a); }
  RONDO_SIMD I ToInt(F a) { return _mm512_cvtps_epi32(a); }
  RONDO_SIMD F ToFloat(I a) { return _mm512_cvtepi32_ps(a); }

  RONDO_SIMD M And(M a, M b) { return static_cast<M>(a & b); }
  RONDO_SIMD M Or(M a, M b) { return static_cast<M>(a | b); }
  RONDO_SIMD bool Any(M a) { return a != 0; }

  // Lanes a0, b0, a1, b1, ... over both results.
  RONDO_SIMD void Interleave(F a, F b, F& first, F& second) {
    const I low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    first = _mm512_permutex2var_ps(a, low, b), second = _mm512_permutex2var_ps(a, AddI(low, SetI(8)), b);
  }

  // Within each 128-bit quarter: 4x4 transposes of rows 4i..4i+3; then the quarters change places.
  RONDO_SIMD void Transpose(F (&r)[16]) {
    F q[16];  // q[4 * i + c]: column c of each quarter, of rows 4i..4i+3
    for (int i = 0; i < 16; i += 4) {
      const F a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
      const F c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
      q[i] = _mm512_shuffle_ps(a, c, 0x44), q[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
      q[i + 2] = _mm512_shuffle_ps(b, d, 0x44), q[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    for (int c = 0; c < 4; ++c) {
      // 0x88 takes quarters 0, 2 of each operand, 0xdd quarters 1, 3.
      const F even_top = _mm512_shuffle_f32x4(q[c], q[4 + c], 0x88);
      const F odd_top = _mm512_shuffle_f32x4(q[c], q[4 + c], 0xdd);
      const F even_bottom = _mm512_shuffle_f32x4(q[8 + c], q[12 + c], 0x88);
      const F odd_bottom = _mm512_shuffle_f32x4(q[8 + c], q[12 + c], 0xdd);
      r[c] = _mm512_shuffle_f32x4(even_top, even_bottom, 0x88);
      r[8 + c] = _mm512_shuffle_f32x4(even_top, even_bottom, 0xdd);
      r[4 + c] = _mm512_shuffle_f32x4(odd_top, odd_bottom, 0x88);
      r[12 + c] = _mm512_shuffle_f32x4(odd_top, odd_bottom, 0xdd);
    }
  }
};

}  // namespace
}  // namespace rondo::simd
