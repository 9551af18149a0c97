// The q8 matmul's inner kernel in sixteen lanes with four-way byte products (VNNI): sixteen rows by twelve tokens.
#pragma once

#include "kernels/cpu/dense/panel_q8.h"

namespace rondo {
namespace {

// D is simd::DotVnni or simd::DotWide.
template <typename D>
struct MultiplyQ8Vnni {
  static constexpr decltype(DenseOps::pack_groups) kPackGroups = nullptr;
  // Twelve integer and twelve float accumulators, of 32 registers: enough in flight for two vpdpbusd a cycle.
  static constexpr int kTokens = 12;
  static constexpr int kTailTokens = 4;
  using S = typename D::S;
  using F = typename S::F;
  using I = typename S::I;

  template <typename R>
  static void MatMul(const MatMulTile& tile, std::byte* scratch) {
    MatMulPanelsQ8<R, MultiplyQ8Vnni>(tile, scratch);
  }

  // The product takes unsigned weights: signed bytes get an offset of 128.
  template <typename R>
  static constexpr uint8_t Flip() {
    return R::kBits == 8 ? 0x80 : 0;
  }

  template <typename R, int kGroup>
  static void Run(const PanelQ8& panel, int blocks, const TokensQ8& tokens, const PanelSums& sums, int64_t at,
                  bool first) {
    // Not a template over R: three loops serve the eight weight types, which halves the time to compile them.
    RunBlocks<R::kHalves, R::kMinimum, kGroup>(R::kBits == 8 ? 128 : R::kOffset, panel, blocks, tokens, sums, at,
                                               first);
  }

 private:
  template <bool kHalves, bool kMinimum, int kGroup>
  [[gnu::noinline]] static void RunBlocks(int32_t offset, const PanelQ8& panel, int blocks, const TokensQ8& tokens,
                                          const PanelSums& sums, int64_t at, bool first) {
    constexpr int kScales = kHalves ? 2 : 1;
    constexpr int kQuads = 8 / kScales;
    F f[kGroup];
    const int64_t stride = tokens.blocks * 32;
    for (int t = 0; t < kGroup; ++t) {
      f[t] = first ? S::Zero() : S::Load(sums.At(at + t));
    }
    for (int b = 0; b < blocks; ++b) {
      for (int h = 0; h < kScales; ++h) {
        I dot[kGroup];
#pragma GCC unroll 16
        for (int t = 0; t < kGroup; ++t) {
          int32_t start = 0;
          if constexpr (!kMinimum) {  // types with minima have no offset
            const int16_t* code_sums = tokens.code_sums + 2 * (t * tokens.blocks + b);
            start = -offset * (kHalves ? code_sums[h] : code_sums[0] + code_sums[1]);
          }
          dot[t] = S::SetI(start);
        }
        for (int q = h * kQuads; q < (h + 1) * kQuads; ++q) {
          const I w = D::LoadCodes(panel.Codes(b) + q * 64);
#pragma GCC unroll 16
          for (int t = 0; t < kGroup; ++t) dot[t] = D::Add(dot[t], w, tokens.codes + t * stride + b * 32 + q * 4);
        }
        const F d = S::Load(panel.Scale(b) + h * kPanelRows);
#pragma GCC unroll 16
        for (int t = 0; t < kGroup; ++t) {
          f[t] = S::Fma(S::Mul(d, S::Set(tokens.scale[t * tokens.blocks + b])), S::ToFloat(dot[t]), f[t]);
        }
      }
      if constexpr (kMinimum) {
        const F m = S::Load(panel.Scale(b) + kPanelRows);
#pragma GCC unroll 16
        for (int t = 0; t < kGroup; ++t) f[t] = S::Fma(m, S::Set(tokens.scaled_sum[t * tokens.blocks + b]), f[t]);
      }
    }
    for (int t = 0; t < kGroup; ++t) S::Store(sums.At(at + t), f[t]);
  }
};

}  // namespace
}  // namespace rondo
