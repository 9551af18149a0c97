// The q8 matmul's inner kernel on AVX2: sixteen rows by four tokens over one unpacked panel chunk.
#pragma once

#include "kernels/cpu/dense/panel_q8.h"
#include "kernels/cpu/simd/dot_avx2.h"

namespace rondo {
namespace {

struct MultiplyQ8Avx2 {
  static constexpr int kTokens = 4;
  static constexpr int kTailTokens = 4;

  template <typename R>
  static constexpr uint8_t Flip() {
    return 0;
  }

  template <typename R, int kGroup>
  static void Run(const PanelQ8& panel, int blocks, const TokensQ8& tokens, const PanelSums& sums, int64_t at,
                  bool first) {
    static_assert(kGroup == 4);
    __m256 f[2][4];
    for (int side = 0; side < 2; ++side) {
      for (int t = 0; t < 4; ++t)
        f[side][t] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(sums.At(at + t) + side * 8);
    }
    const int64_t stride = tokens.blocks * 32;
    const int8_t* x = tokens.codes;
    const uint8_t* w = panel.codes;
    for (int b = 0; b < blocks; ++b, w += 512, x += 32) {
      simd::Tile16x4 dot;
      if constexpr (R::kHalves) {
        for (int half = 0; half < 2; ++half) {
          DotSteps<R, 4>(w + half * 256, x + half * 16, stride, &dot);
          Accumulate<R>(panel.scale + (2 * b + half) * kPanelRows, nullptr, tokens, b, half, dot, f);
        }
      } else {
        DotSteps<R, 8>(w, x, stride, &dot);
        Accumulate<R>(panel.scale + b * kPanelRows, panel.minimum + b * kPanelRows, tokens, b, -1, dot, f);
      }
    }
    for (int side = 0; side < 2; ++side) {
      for (int t = 0; t < 4; ++t) _mm256_storeu_ps(sums.At(at + t) + side * 8, f[side][t]);
    }
  }

 private:
  // i32 sums of unsigned codes over kSteps quads, in as many i16 runs as the code width allows.
  template <typename R, int kSteps>
  [[gnu::always_inline]] static inline void DotSteps(const uint8_t* w, const int8_t* x, int64_t stride,
                                                     simd::Tile16x4* dot) {
    if constexpr (R::kBits == 8) {
      static_assert(kSteps == 8);
      simd::DotSigned(w, x, stride, dot);
    } else {
      constexpr int kSafe = R::kBits == 4 ? 8 : (R::kBits == 5 ? 4 : 2);
      constexpr int kRun = kSafe < kSteps ? kSafe : kSteps;
      const __m256i ones = _mm256_set1_epi16(1);
      for (int step = 0; step < kSteps; step += kRun) {
        simd::Tile16x4 part;
        simd::DotUnsigned<kRun>(w + step * 64, x + step * 4, stride, &part);
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
  [[gnu::always_inline]] static inline void Accumulate(const float* scale, const float* minimum, const TokensQ8& tokens,
                                                       int b, int half, const simd::Tile16x4& dot, __m256 (&f)[2][4]) {
    const __m256 low_scale = _mm256_load_ps(scale), high_scale = _mm256_load_ps(scale + 8);
    for (int t = 0; t < 4; ++t) {
      __m256i low = dot.low[t], high = dot.high[t];
      if constexpr (R::kOffset != 0) {
        const int16_t* sums = tokens.code_sums + 2 * (t * tokens.blocks + b);
        const __m256i offset = _mm256_set1_epi32(R::kOffset * (half < 0 ? sums[0] + sums[1] : sums[half]));
        low = _mm256_sub_epi32(low, offset);
        high = _mm256_sub_epi32(high, offset);
      }
      const __m256 s = _mm256_broadcast_ss(tokens.scale + t * tokens.blocks + b);
      f[0][t] = _mm256_fmadd_ps(_mm256_mul_ps(low_scale, s), _mm256_cvtepi32_ps(low), f[0][t]);
      f[1][t] = _mm256_fmadd_ps(_mm256_mul_ps(high_scale, s), _mm256_cvtepi32_ps(high), f[1][t]);
      if constexpr (R::kMinimum) {
        const __m256 ss = _mm256_broadcast_ss(tokens.scaled_sum + t * tokens.blocks + b);
        f[0][t] = _mm256_fmadd_ps(_mm256_load_ps(minimum), ss, f[0][t]);
        f[1][t] = _mm256_fmadd_ps(_mm256_load_ps(minimum + 8), ss, f[1][t]);
      }
    }
  }
};

}  // namespace
}  // namespace rondo
