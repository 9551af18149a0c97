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
    float* kept = reinterpret_cast<float*>(scratch + kPanelQ8Bytes);  // [panel][kTileTokens][16]
    static_assert(kPanelQ8Bytes + kMostPanels * kTileTokens * kPanelRows * 4 <= kMatMulScratchBytes);
    static_assert(kTileTokens % kGroupTokens == 0);
    const int64_t all_blocks = weight.cols / 32;
    const int64_t groups = (tile.token_end - tile.token_begin + kGroupTokens - 1) / kGroupTokens;
    const uint8_t* tokens = reinterpret_cast<const uint8_t*>(tile.rows->groups.data()) +
                            tile.token_begin / kGroupTokens * all_blocks * kGroupBlockBytes;
    // Several panels for each chunk of the inner dimension, so that its tokens (230 KB) come from L2 but once.
    for (int64_t first_row = tile.row_begin; first_row < tile.row_end; first_row += kMostPanels * kPanelRows) {
      const int64_t end_row = std::min(tile.row_end, first_row + kMostPanels * kPanelRows);
      std::memset(kept, 0,
                  (end_row - first_row + kPanelRows - 1) / kPanelRows * kTileTokens * kPanelRows * sizeof(float));
      for (int64_t begin = 0; begin < weight.cols; begin += kChunkQ8) {
        const int64_t end = std::min(weight.cols, begin + kChunkQ8);
        for (int64_t row = first_row; row < end_row; row += kPanelRows) {
          FillPanelQ8<R>(weight, row, ValidRows(row, end_row), begin, end, 0, panel);
          const bool last = row + kPanelRows >= end_row;
          const int64_t next_row = last ? first_row : row + kPanelRows, next_begin = last ? end : begin;
          float* sums = kept + (row - first_row) * kTileTokens;
          for (int64_t g = 0; g < groups; ++g) {
            if (g < kPanelRows && next_row + g < end_row) Fetch<R>(weight, next_row + g, next_begin);
            simd::MultiplyTile<R::kBits, R::kOffset, R::kHalves, R::kMinimum>(
                panel.blocks, tokens + (g * all_blocks + begin / 32) * kGroupBlockBytes, (end - begin) / 32,
                sums + g * kGroupTokens * kPanelRows);
          }
        }
      }
      CopySums(tile, first_row, end_row, kept);
    }
  }

 private:
  static constexpr int64_t kMostPanels = 8;

  // The lines of one row's next chunk; sixteen short pieces are no stream that the hardware knows.
  template <typename R>
  static void Fetch(const WeightView& weight, int64_t row, int64_t begin) {
    const int64_t size = std::min(kChunkQ8, weight.cols - begin) / R::kBlock * R::kBytes;
    const char* p = reinterpret_cast<const char*>(weight.data) + row * weight.row_bytes + begin / R::kBlock * R::kBytes;
    for (int64_t i = 0; i < size; i += 64) _mm_prefetch(p + i, _MM_HINT_T1);
  }

  // Token by token, so that a row of y is written in one piece.
  static void CopySums(const MatMulTile& tile, int64_t first_row, int64_t end_row, const float* kept) {
    for (int64_t token = tile.token_begin; token < tile.token_end; ++token, kept += kPanelRows) {
      float* y = tile.y + token * tile.weight->rows;
      const float* sums = kept;
      for (int64_t row = first_row; row < end_row; row += kPanelRows, sums += kTileTokens * kPanelRows) {
        if (end_row - row >= kPanelRows) {
          std::memcpy(y + row, sums, kPanelRows * sizeof(float));
        } else {
          std::memcpy(y + row, sums, (end_row - row) * sizeof(float));
        }
      }
    }
  }

  static int ValidRows(int64_t row, int64_t end) { return static_cast<int>(std::min<int64_t>(kPanelRows, end - row)); }
};

}  // namespace
}  // namespace rondo
