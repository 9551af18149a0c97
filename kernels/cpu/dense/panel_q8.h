// A panel of sixteen quantised weight rows unpacked for the q8 matmul: codes quad-interleaved, scales and minima as
// float. Filled per call from the mapped file, a chunk at a time; never kept.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/dense/block_reader.h"
#include "kernels/cpu/dense/matmul_f32.h"

namespace rondo {
namespace {

// 1024 inner elements: 16 KiB of codes and 2 to 6 KiB of scales stay in L1 while the tokens stream past.
inline constexpr int64_t kChunkQ8 = 1024;
inline constexpr int64_t kChunkBlocks = kChunkQ8 / 32;

struct PanelQ8 {
  uint8_t* codes;  // [kChunkBlocks][8 quads][16 rows][4]
  float* scale;    // [kChunkBlocks][1 or 2][16]
  float* minimum;  // [kChunkBlocks][16]
};

inline constexpr size_t kPanelQ8Bytes = kChunkBlocks * (512 + 2 * 64 + 64);

inline PanelQ8 LayOutPanelQ8(std::byte* scratch) {
  PanelQ8 panel;
  panel.codes = reinterpret_cast<uint8_t*>(scratch);
  panel.scale = reinterpret_cast<float*>(scratch + kChunkBlocks * 512);
  panel.minimum = panel.scale + kChunkBlocks * 2 * kPanelRows;
  return panel;
}

// Unpacks elements [begin, end) of rows [row, row + valid); the rows up to sixteen repeat the last. `flip` is
// exclusive-or'ed into every code (0x80 turns signed bytes into unsigned ones with an offset of 128).
template <typename R>
void FillPanelQ8(const WeightView& weight, int64_t row, int valid, int64_t begin, int64_t end, uint8_t flip,
                 const PanelQ8& panel) {
  const uint8_t* source[kPanelRows];
  for (int i = 0; i < kPanelRows; ++i) {
    source[i] = reinterpret_cast<const uint8_t*>(weight.data) + (row + std::min(i, valid - 1)) * weight.row_bytes +
                begin / R::kBlock * R::kBytes;
  }
  const __m256i flips = _mm256_set1_epi8(static_cast<char>(flip));
  constexpr int kScales = R::kHalves ? 2 : 1;
  for (int64_t block = 0; block < (end - begin) / 32; block += 8) {
    const int blocks = static_cast<int>(std::min<int64_t>(8, (end - begin) / 32 - block));
    float* scale = panel.scale + block * kScales * kPanelRows;
    float* minimum = panel.minimum + block * kPanelRows;
    for (int i = 0; i < kPanelRows; ++i) R::Scales(source[i], blocks, scale + i, minimum + i, kPanelRows);
    for (int b = 0; b < blocks; ++b) {
      uint8_t* codes = panel.codes + (block + b) * 512;
      for (int half = 0; half < 2; ++half) {
        __m256 r[8];
        for (int i = 0; i < 8; ++i) {
          r[i] = _mm256_castsi256_ps(_mm256_xor_si256(R::Codes(source[half * 8 + i], b), flips));
        }
        simd::Avx2::Transpose(r);
        for (int q = 0; q < 8; ++q) _mm256_store_ps(reinterpret_cast<float*>(codes + q * 64 + half * 32), r[q]);
      }
    }
    for (int i = 0; i < kPanelRows; ++i) source[i] += 256 / R::kBlock * R::kBytes;
  }
}

// Activation codes of one token from some block on.
struct TokenQ8 {
  const int8_t* codes;
  const float* scale;
  const float* scaled_sum;
  const int16_t* code_sums;
};

inline TokenQ8 TokenAt(const ActivationRows& rows, int64_t token, int64_t block) {
  const int64_t i = token * (rows.cols / 32) + block;
  return {rows.codes.data() + i * 32, rows.scale.data() + i, rows.scaled_sum.data() + i, rows.code_sums.data() + i * 2};
}

// The walk over panels, chunks and token groups; Multiply::Run<R, kFirst...> does one group against one chunk.
//   template <typename R> static void Multiply::Run(const PanelQ8&, int blocks, const TokenQ8*, float* const* sums,
//                                                   bool first), with Multiply::kTokens tokens (repeats are harmless)
template <typename R, typename Multiply>
void MatMulPanelsQ8(const MatMulTile& tile, std::byte* scratch) {
  const WeightView& weight = *tile.weight;
  const PanelQ8 panel = LayOutPanelQ8(scratch);
  float* kept = reinterpret_cast<float*>(scratch + kPanelQ8Bytes);  // [kTileTokens][16]
  float* spill = kept + kTileTokens * kPanelRows;                   // [kTokens][16]
  static_assert(kPanelQ8Bytes + (kTileTokens + Multiply::kTokens) * kPanelRows * 4 <= kMatMulScratchBytes);
  for (int64_t row = tile.row_begin; row < tile.row_end; row += kPanelRows) {
    const int valid = static_cast<int>(std::min<int64_t>(kPanelRows, tile.row_end - row));
    const PanelSums sums = PlacePanelSums(tile, row, valid, weight.cols <= kChunkQ8, kept);
    for (int64_t begin = 0; begin < weight.cols; begin += kChunkQ8) {
      const int64_t end = std::min(weight.cols, begin + kChunkQ8);
      FillPanelQ8<R>(weight, row, valid, begin, end, Multiply::template Flip<R>(), panel);
      const int64_t count = tile.token_end - tile.token_begin;
      for (int64_t t = 0; t < count; t += Multiply::kTokens) {
        TokenQ8 tokens[Multiply::kTokens];
        float* out[Multiply::kTokens];
        for (int i = 0; i < Multiply::kTokens; ++i) {
          tokens[i] = TokenAt(*tile.rows, tile.token_begin + std::min(t + i, count - 1), begin / 32);
          out[i] = t + i < count ? sums.At(t + i) : spill + i * kPanelRows;
        }
        Multiply::template Run<R>(panel, static_cast<int>((end - begin) / 32), tokens, out, begin == 0);
      }
    }
    CopyPanelSums(tile, row, valid, sums, kept);
  }
}

}  // namespace
}  // namespace rondo
