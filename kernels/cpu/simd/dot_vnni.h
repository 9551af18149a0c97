// Four-way products of unsigned weight bytes and signed activation bytes in sixteen int32 lanes: vpdpbusd, and the
// same arithmetic on two AVX2 registers for tests on hosts without it. Used by the q8 matmul's AVX-512 kernel.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/simd/wide.h"

#ifdef __AVX512VNNI__
#include "kernels/cpu/simd/avx512.h"
#endif

namespace rondo::simd {
namespace {

#ifdef __AVX512VNNI__
// sum + the four products of each lane; `x` points at four activation codes, used by every lane.
struct DotVnni {
  using S = Avx512;
  RONDO_SIMD S::I LoadCodes(const uint8_t* p) { return _mm512_load_si512(p); }
  RONDO_SIMD S::I Add(S::I sum, S::I w, const int8_t* x) {
    int32_t quad;
    __builtin_memcpy(&quad, x, 4);
    return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(quad));
  }
};
#endif

struct DotWide {
  using S = Wide;
  RONDO_SIMD S::I LoadCodes(const uint8_t* p) {
    return {_mm256_load_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_load_si256(reinterpret_cast<const __m256i*>(p + 32))};
  }
  RONDO_SIMD S::I Add(S::I sum, S::I w, const int8_t* x) {
    int32_t quad;
    __builtin_memcpy(&quad, x, 4);
    return {_mm256_add_epi32(sum.lo, Quads(w.lo, quad)), _mm256_add_epi32(sum.hi, Quads(w.hi, quad))};
  }

 private:
  // Without saturation: even and odd bytes in i16 (255 * 128 overflows one product's i16 sum, so they are widened
  // by vpmaddwd one by one).
  RONDO_SIMD __m256i Quads(__m256i w, int32_t quad) {
    const __m256i x = _mm256_set1_epi32(quad);
    const __m256i even_w = _mm256_and_si256(w, _mm256_set1_epi16(0xff)), odd_w = _mm256_srli_epi16(w, 8);
    const __m256i even_x = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), odd_x = _mm256_srai_epi16(x, 8);
    return _mm256_add_epi32(_mm256_madd_epi16(even_w, even_x), _mm256_madd_epi16(odd_w, odd_x));
  }
};

}  // namespace
}  // namespace rondo::simd
