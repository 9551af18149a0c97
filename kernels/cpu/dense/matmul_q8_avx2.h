// The q8 matmul's inner kernel on AVX2: sixteen rows by four tokens over one unpacked panel chunk.
#pragma once

#include "kernels/cpu/dense/panel_q8.h"
#include "kernels/cpu/simd/dot_avx2.h"

namespace rondo {
namespace {

struct MultiplyQ8Avx2 {
  static constexpr int kTokens = 4;

  template <typename R>
  static constexpr uint8_t Flip() {
    return 0;
  }

  template <typename R>
  static void Run(const PanelQ8& panel, int blocks, const TokenQ8* token, float* const* sums, bool first) {
    __m256 f[2][4];
    for (int half = 0; half < 2; ++half) {
      for (int t = 0; t < 4; ++t) f[half][t] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(sums[t] + half * 8);
    }
    const int8_t *x0 = token[0].codes, *x1 = token[1].codes, *x2 = token[2].codes, *x3 = token[3].codes;
    const uint8_t* w = panel.codes;
    for (int b = 0; b < blocks; ++b, w += 512, x0 += 32, x1 += 32, x2 += 32, x3 += 32) {
      simd::Tile16x4 dot;
      if constexpr (R::kHalves) {
        for (int half = 0; half < 2; ++half) {
          const int at = half * 16;
          DotSteps<R, 4>(w + half * 256, x0 + at, x1 + at, x2 + at, x3 + at, &dot);
          Accumulate<R>(panel.scale + (2 * b + half) * kPanelRows, nullptr, token, b, half, dot, f);
        }
      } else {
        DotSteps<R, 8>(w, x0, x1, x2, x3, &dot);
        Accumulate<R>(panel.scale + b * kPanelRows, panel.minimum + b * kPanelRows, token, b, -1, dot, f);
      }
    }
    for (int half = 0; half < 2; ++half) {
      for (int t = 0; t < 4; ++t) _mm256_storeu_ps(sums[t] + half * 8, f[half][t]);
    }
  }

 private:
  // i32 sums of unsigned codes over kSteps quads, in as many i16 runs as the code width allows.
  template <typename R, int kSteps>
  [[gnu::always_inline]] static inline void DotSteps(const uint8_t* w, const int8_t* x0, const int8_t* x1,
                                                     const int8_t* x2, const int8_t* x3, simd::Tile16x4* dot) {
    if constexpr (R::kBits == 8) {
      static_assert(kSteps == 8);
      simd::DotSigned(w, x0, x1, x2, x3, dot);
    } else {
      constexpr int kSafe = R::kBits == 4 ? 8 : (R::kBits == 5 ? 4 : 2);
      constexpr int kRun = kSafe < kSteps ? kSafe : kSteps;
      const __m256i ones = _mm256_set1_epi16(1);
      for (int step = 0; step < kSteps; step += kRun) {
        simd::Tile16x4 part;
        simd::DotUnsigned<kRun>(w + step * 64, x0 + step * 4, x1 + step * 4, x2 + step * 4, x3 + step * 4, &part);
        for (int t = 0; t < 4; ++t) {
          const __m256i low = _mm256_madd_epi16(part.low[t], ones), high = _mm256_madd_epi16(part.high[t], ones);
          dot->low[t] = step == 0 ? low : _mm256_add_epi32(dot->low[t], low);
          dot->high[t] = step == 0 ? high : _mm256_add_epi32(dot->high[t], high);
        }
      }
    }
  }

  // f += scale * s * (dot - offset * sum of codes), then minimum * scaled_sum. half = -1: the whole block.
  template <typename R>
  [[gnu::always_inline]] static inline void Accumulate(const float* scale, const float* minimum, const TokenQ8* token,
                                                       int b, int half, const simd::Tile16x4& dot, __m256 (&f)[2][4]) {
    for (int side = 0; side < 2; ++side) {
      const __m256 d = _mm256_load_ps(scale + side * 8);
      for (int t = 0; t < 4; ++t) {
        __m256i sum = side == 0 ? dot.low[t] : dot.high[t];
        if constexpr (R::kOffset != 0) {
          const int16_t* sums = token[t].code_sums + 2 * b;
          const int32_t codes = half < 0 ? sums[0] + sums[1] : sums[half];
          sum = _mm256_sub_epi32(sum, _mm256_set1_epi32(R::kOffset * codes));
        }
        const __m256 s = _mm256_broadcast_ss(token[t].scale + b);
        f[side][t] = _mm256_fmadd_ps(_mm256_mul_ps(d, s), _mm256_cvtepi32_ps(sum), f[side][t]);
        if constexpr (R::kMinimum) {
          const __m256 m = _mm256_load_ps(minimum + side * 8);
          f[side][t] = _mm256_fmadd_ps(m, _mm256_broadcast_ss(token[t].scaled_sum + b), f[side][t]);
        }
      }
    }
  }
};

}  // namespace
}  // namespace rondo
