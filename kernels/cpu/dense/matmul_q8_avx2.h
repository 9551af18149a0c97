// The q8 matmul for many rows on AVX2: panels of sixteen weight rows, a chunk at a time, against groups of four tokens.
#pragma once

#include "kernels/cpu/dense/panel_q8.h"
#include "kernels/cpu/dense/token_groups.h"
#include "kernels/cpu/simd/dot_avx2.h"

namespace rondo {
namespace {

struct MultiplyQ8Avx2 {
  static constexpr auto kPackGroups = PackTokenGroups;
  static constexpr int64_t kTokens = kGroupTokens;

  template <typename R>
  static void MatMul(const MatMulTile& tile, std::byte* scratch) {
    const WeightView& weight = *tile.weight;
    const PanelQ8 panel = LayOutPanelQ8(scratch);
    float* kept = reinterpret_cast<float*>(scratch + kPanelQ8Bytes);  // [kTileTokens][16]
    static_assert(kPanelQ8Bytes + kTileTokens * kPanelRows * 4 <= kMatMulScratchBytes);
    static_assert(kTileTokens % kGroupTokens == 0);
    const int64_t all_blocks = weight.cols / 32;
    const int64_t groups = (tile.token_end - tile.token_begin + kGroupTokens - 1) / kGroupTokens;
    const uint8_t* tokens = reinterpret_cast<const uint8_t*>(tile.rows->groups.data()) +
                            tile.token_begin / kGroupTokens * all_blocks * kGroupBlockBytes;
    for (int64_t row = tile.row_begin; row < tile.row_end; row += kPanelRows) {
      const int valid = static_cast<int>(std::min<int64_t>(kPanelRows, tile.row_end - row));
      std::memset(kept, 0, groups * kGroupTokens * kPanelRows * sizeof(float));
      for (int64_t begin = 0; begin < weight.cols; begin += kChunkQ8) {
        const int64_t end = std::min(weight.cols, begin + kChunkQ8);
        FillPanelQ8<R>(weight, row, valid, begin, end, 0, panel);
        for (int64_t g = 0; g < groups; ++g) {
          simd::MultiplyTile<R::kBits, R::kOffset, R::kHalves, R::kMinimum>(
              panel.blocks, tokens + (g * all_blocks + begin / 32) * kGroupBlockBytes, (end - begin) / 32,
              kept + g * kGroupTokens * kPanelRows);
        }
      }
      CopyPanelSums(tile, row, valid, PanelSums{kept, kPanelRows}, kept);
    }
  }
};

}  // namespace
}  // namespace rondo
