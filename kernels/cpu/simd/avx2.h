// Eight lanes of float and int32 in one AVX2 register; operations as in simd/scalar.h. Used by the translation units
// of kernels/cpu/ that are compiled with -mavx2 -mfma.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/scalar.h"

namespace rondo::simd {
namespace {

// For maskload and maskstore: eight set lanes, then eight clear ones; lanes [0, n) start at 8 - n.
alignas(64) inline constexpr int32_t kAvx2LaneMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

struct Avx2 {
  static constexpr int kLanes = 8;
  using F = __m256;
  using I = __m256i;
  using M = __m256;

  RONDO_SIMD F Zero() { return _mm256_setzero_ps(); }
  RONDO_SIMD F Set(float x) { return _mm256_set1_ps(x); }
  RONDO_SIMD F Load(const float* p) { return _mm256_loadu_ps(p); }
  RONDO_SIMD void Store(float* p, F a) { _mm256_storeu_ps(p, a); }
  // As Set(*p), at the cost of a load but of no register for longer than it is used.
  RONDO_SIMD F Broadcast(const float* p) {
    F x;
    asm volatile("vbroadcastss %1, %0" : "=x"(x) : "m"(*p));
    return x;
  }
  RONDO_SIMD I FirstLanes(int n) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kAvx2LaneMasks + 8 - n));
  }
  RONDO_SIMD F LoadPartial(const float* p, int n) { return _mm256_maskload_ps(p, FirstLanes(n)); }
  RONDO_SIMD void StorePartial(float* p, F a, int n) { _mm256_maskstore_ps(p, FirstLanes(n), a); }
  RONDO_SIMD F LoadBf16(const uint16_t* p) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return AsFloat(ShiftLeft<16>(_mm256_cvtepu16_epi32(half)));
  }
  // The lower half of the lanes from a, the upper from b.
  RONDO_SIMD F LoadHalves(const float* a, const float* b) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
  }
  RONDO_SIMD F LoadHalves(const uint16_t* a, const uint16_t* b) {
    const __m128d low = _mm_load_sd(reinterpret_cast<const double*>(a));
    const __m128i both = _mm_castpd_si128(_mm_loadh_pd(low, reinterpret_cast<const double*>(b)));
    return AsFloat(ShiftLeft<16>(_mm256_cvtepu16_epi32(both)));
  }

  RONDO_SIMD F Add(F a, F b) { return _mm256_add_ps(a, b); }
  RONDO_SIMD F Sub(F a, F b) { return _mm256_sub_ps(a, b); }
  RONDO_SIMD F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  RONDO_SIMD F Div(F a, F b) { return _mm256_div_ps(a, b); }
  RONDO_SIMD F Sqrt(F a) { return _mm256_sqrt_ps(a); }
  RONDO_SIMD F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  // sum = Fma(a, b, sum), in place and in this order: left to itself g++ 12 lets the result take a factor's register,
  // or loads all factors first, and spills.
  RONDO_SIMD void AddProduct(F& sum, F a, F b) { asm volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b)); }
  RONDO_SIMD F Max(F a, F b) { return _mm256_max_ps(a, b); }
  RONDO_SIMD F Min(F a, F b) { return _mm256_min_ps(a, b); }
  RONDO_SIMD F Abs(F a) { return _mm256_and_ps(a, AsFloat(SetI(0x7fffffff))); }
  RONDO_SIMD F Ceil(F a) { return _mm256_ceil_ps(a); }
  RONDO_SIMD F Round(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  RONDO_SIMD M Less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  RONDO_SIMD M Equal(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
  RONDO_SIMD F Select(M m, F a, F b) { return _mm256_blendv_ps(b, a, m); }
  RONDO_SIMD F SwapPairs(F a) { return _mm256_permute_ps(a, 0xb1); }

  RONDO_SIMD I SetI(int32_t x) { return _mm256_set1_epi32(x); }
  RONDO_SIMD I Iota() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
  RONDO_SIMD I LoadI(const int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  RONDO_SIMD void StoreI(int32_t* p, I a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a); }
  RONDO_SIMD I AddI(I a, I b) { return _mm256_add_epi32(a, b); }
  RONDO_SIMD I SubI(I a, I b) { return _mm256_sub_epi32(a, b); }
  RONDO_SIMD I AndI(I a, I b) { return _mm256_and_si256(a, b); }
  RONDO_SIMD I OrI(I a, I b) { return _mm256_or_si256(a, b); }
  template <int kBits>
  RONDO_SIMD I ShiftLeft(I a) {
    return _mm256_slli_epi32(a, kBits);
  }
  template <int kBits>
  RONDO_SIMD I ShiftRight(I a) {
    return _mm256_srli_epi32(a, kBits);
  }
  RONDO_SIMD M LessI(I a, I b) { return AsFloat(_mm256_cmpgt_epi32(b, a)); }
  RONDO_SIMD M EqualI(I a, I b) { return AsFloat(_mm256_cmpeq_epi32(a, b)); }
  RONDO_SIMD I SelectI(M m, I a, I b) { return _mm256_blendv_epi8(b, a, AsInt(m)); }

  RONDO_SIMD I AsInt(F a) { return _mm256_castps_si256(a); }
  RONDO_SIMD F AsFloat(I a) { return _mm256_castsi256_ps(a); }
  RONDO_SIMD I ToInt(F a) { return _mm256_cvtps_epi32(a); }
  RONDO_SIMD F ToFloat(I a) { return _mm256_cvtepi32_ps(a); }

  RONDO_SIMD M And(M a, M b) { return _mm256_and_ps(a, b); }
  RONDO_SIMD M Or(M a, M b) { return _mm256_or_ps(a, b); }
  RONDO_SIMD bool Any(M a) { return _mm256_movemask_ps(a) != 0; }

  // Lanes a0, b0, a1, b1, ... over both results.
  RONDO_SIMD void Interleave(F a, F b, F& first, F& second) {
    const F low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    first = _mm256_permute2f128_ps(low, high, 0x20), second = _mm256_permute2f128_ps(low, high, 0x31);
  }

  // r[i]: float i of eight rows, `stride` floats apart. Loads do what Transpose does by exchanging halves.
  RONDO_SIMD void LoadTransposed(const float* rows, size_t stride, F (&r)[8]) {
    const auto halves = [&](size_t i, int d) {
      const F low = _mm256_castps128_ps256(_mm_loadu_ps(rows + i * stride + d));
      return _mm256_insertf128_ps(low, _mm_loadu_ps(rows + (i + 4) * stride + d), 1);
    };
#pragma GCC unroll 2
    for (int d = 0; d < 8; d += 4) {
      const F x0 = halves(0, d), x1 = halves(1, d), x2 = halves(2, d), x3 = halves(3, d);
      const F a0 = _mm256_unpacklo_ps(x0, x1), a1 = _mm256_unpackhi_ps(x0, x1);
      const F a2 = _mm256_unpacklo_ps(x2, x3), a3 = _mm256_unpackhi_ps(x2, x3);
      r[d] = _mm256_shuffle_ps(a0, a2, 0x44), r[d + 1] = _mm256_shuffle_ps(a0, a2, 0xee);
      r[d + 2] = _mm256_shuffle_ps(a1, a3, 0x44), r[d + 3] = _mm256_shuffle_ps(a1, a3, 0xee);
    }
  }

  RONDO_SIMD void Transpose(F (&r)[8]) {
    const F a0 = _mm256_unpacklo_ps(r[0], r[1]), a1 = _mm256_unpackhi_ps(r[0], r[1]);
    const F a2 = _mm256_unpacklo_ps(r[2], r[3]), a3 = _mm256_unpackhi_ps(r[2], r[3]);
    const F a4 = _mm256_unpacklo_ps(r[4], r[5]), a5 = _mm256_unpackhi_ps(r[4], r[5]);
    const F a6 = _mm256_unpacklo_ps(r[6], r[7]), a7 = _mm256_unpackhi_ps(r[6], r[7]);
    const F b0 = _mm256_shuffle_ps(a0, a2, 0x44), b1 = _mm256_shuffle_ps(a0, a2, 0xee);
    const F b2 = _mm256_shuffle_ps(a1, a3, 0x44), b3 = _mm256_shuffle_ps(a1, a3, 0xee);
    const F b4 = _mm256_shuffle_ps(a4, a6, 0x44), b5 = _mm256_shuffle_ps(a4, a6, 0xee);
    const F b6 = _mm256_shuffle_ps(a5, a7, 0x44), b7 = _mm256_shuffle_ps(a5, a7, 0xee);
    r[0] = _mm256_permute2f128_ps(b0, b4, 0x20), r[4] = _mm256_permute2f128_ps(b0, b4, 0x31);
    r[1] = _mm256_permute2f128_ps(b1, b5, 0x20), r[5] = _mm256_permute2f128_ps(b1, b5, 0x31);
    r[2] = _mm256_permute2f128_ps(b2, b6, 0x20), r[6] = _mm256_permute2f128_ps(b2, b6, 0x31);
    r[3] = _mm256_permute2f128_ps(b3, b7, 0x20), r[7] = _mm256_permute2f128_ps(b3, b7, 0x31);
  }
};

}  // namespace
}  // namespace rondo::simd
