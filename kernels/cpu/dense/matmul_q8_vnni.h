// The q8 matmul's inner kernel in sixteen lanes with four-way byte products (VNNI): sixteen rows by twelve tokens.
#pragma once

#include "kernels/cpu/dense/panel_q8.h"

namespace rondo {
namespace {

// D is simd::DotVnni or simd::DotWide.
template <typename D>
struct MultiplyQ8Vnni {
  // Twelve integer and twelve float accumulators, of 32 registers: enough in flight for two vpdpbusd a cycle.
  static constexpr int kTokens = 12;
  using S = typename D::S;
  using F = typename S::F;
  using I = typename S::I;

  // The product takes unsigned weights: signed bytes get an offset of 128.
  template <typename R>
  static constexpr uint8_t Flip() {
    return R::kBits == 8 ? 0x80 : 0;
  }

  template <typename R>
  static void Run(const PanelQ8& panel, int blocks, const TokenQ8* token, float* const* sums, bool first) {
    constexpr int kOffset = R::kBits == 8 ? 128 : R::kOffset;
    constexpr int kScales = R::kHalves ? 2 : 1;
    constexpr int kQuads = 8 / kScales;
    F f[kTokens];
    const int8_t* x[kTokens];
    for (int t = 0; t < kTokens; ++t) {
      f[t] = first ? S::Zero() : S::Load(sums[t]);
      x[t] = token[t].codes;
    }
    for (int b = 0; b < blocks; ++b) {
      for (int h = 0; h < kScales; ++h) {
        I dot[kTokens];
#pragma GCC unroll 16
        for (int t = 0; t < kTokens; ++t) {
          int32_t start = 0;
          if constexpr (kOffset != 0) {
            const int16_t* code_sums = token[t].code_sums + 2 * b;
            start = -kOffset * (R::kHalves ? code_sums[h] : code_sums[0] + code_sums[1]);
          }
          dot[t] = S::SetI(start);
        }
        for (int q = h * kQuads; q < (h + 1) * kQuads; ++q) {
          const I w = D::LoadCodes(panel.codes + b * 512 + q * 64);
#pragma GCC unroll 16
          for (int t = 0; t < kTokens; ++t) dot[t] = D::Add(dot[t], w, x[t] + b * 32 + q * 4);
        }
        const F d = S::Load(panel.scale + (b * kScales + h) * kPanelRows);
#pragma GCC unroll 16
        for (int t = 0; t < kTokens; ++t) {
          f[t] = S::Fma(S::Mul(d, S::Set(token[t].scale[b])), S::ToFloat(dot[t]), f[t]);
        }
      }
      if constexpr (R::kMinimum) {
        const F m = S::Load(panel.minimum + b * kPanelRows);
#pragma GCC unroll 16
        for (int t = 0; t < kTokens; ++t) f[t] = S::Fma(m, S::Set(token[t].scaled_sum[b]), f[t]);
      }
    }
    for (int t = 0; t < kTokens; ++t) S::Store(sums[t], f[t]);
  }
};

}  // namespace
}  // namespace rondo
