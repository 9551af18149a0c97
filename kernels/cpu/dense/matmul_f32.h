// The float32 matmul over a vector type: sixteen weight rows in lanes, a few tokens, one fma accumulator an output
// element, inner index ascending. Weights of any type are dequantised and transposed into L1 a chunk at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/dense/block_reader.h"
#include "kernels/cpu/dense/dense_ops.h"

namespace rondo {
namespace {

inline constexpr int kPanelRows = 16;
// A panel chunk of 256 x 16 floats is 16 KiB: half of the smallest L1, the other half for activations.
inline constexpr int64_t kChunkF32 = 256;
inline constexpr int64_t kTileTokens = 256;

// Where the sixteen sums of token t live between chunks: in y itself if the row fits one chunk and the panel is whole,
// else in scratch.
struct PanelSums {
  float* base;
  int64_t stride;
  float* At(int64_t t) const { return base + t * stride; }
};

inline PanelSums PlacePanelSums(const MatMulTile& tile, int64_t row, int valid, bool one_chunk, float* scratch) {
  if (one_chunk && valid == kPanelRows) {
    return {tile.y + tile.token_begin * tile.weight->rows + row, tile.weight->rows};
  }
  return {scratch, kPanelRows};
}

inline void CopyPanelSums(const MatMulTile& tile, int64_t row, int valid, const PanelSums& sums, const float* scratch) {
  if (sums.base != scratch) return;
  for (int64_t t = 0; t < tile.token_end - tile.token_begin; ++t) {
    float* y = tile.y + (tile.token_begin + t) * tile.weight->rows + row;
    std::memcpy(y, sums.At(t), valid * sizeof(float));
  }
}

// panel[k][16] <- rows[16] of n floats each, readable up to the next multiple of 8.
inline void TransposePanel(const float* const* rows, int64_t n, float* panel) {
  for (int64_t k = 0; k < n; k += 8) {
    for (int half = 0; half < 2; ++half) {
      __m256 r[8];
      for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(rows[half * 8 + i] + k);
      simd::Avx2::Transpose(r);
      for (int i = 0; i < 8; ++i) _mm256_store_ps(panel + (k + i) * kPanelRows + half * 8, r[i]);
    }
  }
}

// kTokens tokens by sixteen rows over n inner elements. x[t] may repeat; sums[t] is read unless `first`.
template <typename S, int kTokens>
void MultiplyPanelF32(const float* panel, int64_t n, const float* const* x, float* const* sums, bool first) {
  constexpr int kVectors = kPanelRows / S::kLanes;
  typename S::F acc[kTokens][kVectors];
  const float* xt[kTokens];
  for (int t = 0; t < kTokens; ++t) {
    xt[t] = x[t];
    for (int v = 0; v < kVectors; ++v) acc[t][v] = first ? S::Zero() : S::Load(sums[t] + v * S::kLanes);
  }
  for (int64_t k = 0; k < n; ++k) {
    typename S::F w[kVectors];
    for (int v = 0; v < kVectors; ++v) w[v] = S::Load(panel + k * kPanelRows + v * S::kLanes);
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) {
      const typename S::F a = S::Set(xt[t][k]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) acc[t][v] = S::Fma(w[v], a, acc[t][v]);
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int v = 0; v < kVectors; ++v) S::Store(sums[t] + v * S::kLanes, acc[t][v]);
  }
}

// Tokens [0, count) in steps of kMost, the rest by the smallest of 1, 2, 4, kMost that holds them: the surplus
// repeats the last token and writes to `spill` [kMost][16].
template <typename S, int kMost>
void MultiplyTokensF32(const float* panel, int64_t n, const float* x, int64_t x_stride, int64_t count,
                       const PanelSums& sums, bool first, float* spill) {
  for (int64_t t = 0; t < count; t += kMost) {
    const float* xs[kMost];
    float* out[kMost];
    const int64_t left = std::min<int64_t>(kMost, count - t);
    for (int i = 0; i < kMost; ++i) {
      xs[i] = x + (t + std::min<int64_t>(i, left - 1)) * x_stride;
      out[i] = i < left ? sums.At(t + i) : spill + i * kPanelRows;
    }
    if (left == 1) {
      MultiplyPanelF32<S, 1>(panel, n, xs, out, first);
    } else if (left == 2) {
      MultiplyPanelF32<S, 2>(panel, n, xs, out, first);
    } else if (left <= 4) {
      MultiplyPanelF32<S, 4>(panel, n, xs, out, first);
    } else {
      MultiplyPanelF32<S, kMost>(panel, n, xs, out, first);
    }
  }
}

template <typename S, int kMost>
void MatMulF32(const MatMulTile& tile, std::byte* scratch) {
  const WeightView& weight = *tile.weight;
  float* row_buffer = reinterpret_cast<float*>(scratch);  // [16][kChunkF32]
  float* panel = row_buffer + kPanelRows * kChunkF32;     // [kChunkF32][16]
  float* kept = panel + kPanelRows * kChunkF32;           // [kTileTokens][16]
  float* spill = kept + kPanelRows * kTileTokens;         // [kMost][16]
  static_assert((2 * kChunkF32 + kTileTokens + kMost) * kPanelRows * 4 <= kMatMulScratchBytes);
  for (int64_t row = tile.row_begin; row < tile.row_end; row += kPanelRows) {
    const int valid = static_cast<int>(std::min<int64_t>(kPanelRows, tile.row_end - row));
    const PanelSums sums = PlacePanelSums(tile, row, valid, weight.cols <= kChunkF32, kept);
    for (int64_t begin = 0; begin < weight.cols; begin += kChunkF32) {
      const int64_t end = std::min(weight.cols, begin + kChunkF32);
      const float* rows[kPanelRows];
      for (int i = 0; i < kPanelRows; ++i) {
        const std::byte* source = weight.data + (row + std::min(i, valid - 1)) * weight.row_bytes;
        if (weight.type == WeightType::kF32 && (end - begin) % 8 == 0) {
          rows[i] = reinterpret_cast<const float*>(source) + begin;
          continue;
        }
        float* copy = row_buffer + i * kChunkF32;
        DequantiseRange(weight.type, source, begin, end, copy);
        for (int64_t k = end - begin; k % 8 != 0; ++k) copy[k] = 0;
        rows[i] = copy;
      }
      TransposePanel(rows, end - begin, panel);
      MultiplyTokensF32<S, kMost>(panel, end - begin, tile.rows->x + tile.token_begin * weight.cols + begin,
                                  weight.cols, tile.token_end - tile.token_begin, sums, begin == 0, spill);
    }
    CopyPanelSums(tile, row, valid, sums, kept);
  }
}

}  // namespace
}  // namespace rondo
