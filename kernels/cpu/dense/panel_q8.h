// A panel of sixteen quantised weight rows unpacked for the q8 matmul: codes quad-interleaved, scales and minima as
// float. Filled per call from the mapped file, a chunk at a time; never kept.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/dense/block_reader.h"
#include "kernels/cpu/dense/matmul_f32.h"
#include "kernels/cpu/dense/token_groups.h"

namespace rondo {
namespace {

// 512 inner elements: 10 KiB stay in L1 while the tokens stream past.
inline constexpr int64_t kChunkQ8 = 512;
inline constexpr int64_t kChunkBlocks = kChunkQ8 / 32;

// A block: codes [8 quads][16 rows][4], scale [16], then minimum [16] or the second half's scale.
struct PanelQ8 {
  uint8_t* blocks;  // [kChunkBlocks][kPanelBlockBytes]
  uint8_t* Codes(int64_t block) const { return blocks + block * kPanelBlockBytes; }
  float* Scale(int64_t block) const { return reinterpret_cast<float*>(Codes(block) + 512); }
};

inline constexpr size_t kPanelQ8Bytes = kChunkBlocks * kPanelBlockBytes;

inline PanelQ8 LayOutPanelQ8(std::byte* scratch) { return {reinterpret_cast<uint8_t*>(scratch)}; }

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
  for (int64_t block = 0; block < (end - begin) / 32; block += 8) {
    const int blocks = static_cast<int>(std::min<int64_t>(8, (end - begin) / 32 - block));
    float* scale = panel.Scale(block);
    for (int i = 0; i < kPanelRows; i += 8) {
      R::Scales8(source + i, blocks, scale + i, scale + kPanelRows + i, kPanelBlockBytes / sizeof(float));
    }
    for (int b = 0; b < blocks; ++b) {
      uint8_t* codes = panel.Codes(block + b);
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

// Activation codes of consecutive tokens from some block on; the matrices' row lengths lie between tokens.
struct TokensQ8 {
  const int8_t* codes;
  const float* scale;
  const float* scaled_sum;
  const int16_t* code_sums;
  int64_t blocks;  // a row: codes of token t start at t * blocks * 32, scales at t * blocks, sums at t * blocks * 2
};

inline TokensQ8 TokensAt(const ActivationRows& rows, int64_t token, int64_t block) {
  const int64_t blocks = rows.cols / 32, i = token * blocks + block;
  return {rows.codes.data() + i * 32, rows.scale.data() + i, rows.scaled_sum.data() + i, rows.code_sums.data() + i * 2,
          blocks};
}

// The last tokens of a tile that fill no group: copied for one chunk, the missing ones zero.
template <int kTokens>
struct PaddedTokensQ8 {
  alignas(64) int8_t codes[kTokens * kChunkQ8];
  float scale[kTokens * kChunkBlocks];
  float scaled_sum[kTokens * kChunkBlocks];
  int16_t code_sums[kTokens * kChunkBlocks * 2];

  TokensQ8 Copy(const TokensQ8& from, int64_t count, int64_t blocks) {
    std::memset(codes + count * kChunkQ8, 0, (kTokens - count) * kChunkQ8);
    std::memset(scale + count * kChunkBlocks, 0, (kTokens - count) * kChunkBlocks * sizeof(float));
    std::memset(scaled_sum + count * kChunkBlocks, 0, (kTokens - count) * kChunkBlocks * sizeof(float));
    std::memset(code_sums + count * kChunkBlocks * 2, 0, (kTokens - count) * kChunkBlocks * 2 * sizeof(int16_t));
    for (int64_t t = 0; t < count; ++t) {
      std::memcpy(codes + t * kChunkQ8, from.codes + t * from.blocks * 32, blocks * 32);
      std::memcpy(scale + t * kChunkBlocks, from.scale + t * from.blocks, blocks * sizeof(float));
      std::memcpy(scaled_sum + t * kChunkBlocks, from.scaled_sum + t * from.blocks, blocks * sizeof(float));
      std::memcpy(code_sums + t * kChunkBlocks * 2, from.code_sums + t * from.blocks * 2, blocks * 2 * sizeof(int16_t));
    }
    return {codes, scale, scaled_sum, code_sums, kChunkBlocks};
  }
};

// The walk over panels, chunks and token groups. Multiply provides
//   kTokens, kTailTokens     tokens of a group, and of the groups that take the rest
//   Flip<R>()                what FillPanelQ8 flips
//   Run<R, kGroup>(panel, blocks, tokens, sums, at, first): one group against one chunk; sums.At(at + t) is token t's
//                            sixteen sums, read unless `first`
template <typename R, typename Multiply>
void MatMulPanelsQ8(const MatMulTile& tile, std::byte* scratch) {
  const WeightView& weight = *tile.weight;
  const PanelQ8 panel = LayOutPanelQ8(scratch);
  constexpr int kTail = Multiply::kTailTokens;
  float* kept = reinterpret_cast<float*>(scratch + kPanelQ8Bytes);  // [kTileTokens][16]
  float* spill = kept + kTileTokens * kPanelRows;                   // [kTail][16]
  using Padded = PaddedTokensQ8<kTail>;
  Padded* padded = reinterpret_cast<Padded*>(spill + kTail * kPanelRows);
  static_assert(kPanelQ8Bytes + (kTileTokens + kTail) * kPanelRows * 4 + sizeof(Padded) <= kMatMulScratchBytes);
  const int64_t count = tile.token_end - tile.token_begin;
  for (int64_t row = tile.row_begin; row < tile.row_end; row += kPanelRows) {
    const int valid = static_cast<int>(std::min<int64_t>(kPanelRows, tile.row_end - row));
    const PanelSums sums = PlacePanelSums(tile, row, valid, weight.cols <= kChunkQ8, kept);
    for (int64_t begin = 0; begin < weight.cols; begin += kChunkQ8) {
      const int64_t end = std::min(weight.cols, begin + kChunkQ8);
      const int blocks = static_cast<int>((end - begin) / 32);
      const bool first = begin == 0;
      FillPanelQ8<R>(weight, row, valid, begin, end, Multiply::template Flip<R>(), panel);
      int64_t t = 0;
      for (; t + Multiply::kTokens <= count; t += Multiply::kTokens) {
        const TokensQ8 tokens = TokensAt(*tile.rows, tile.token_begin + t, begin / 32);
        Multiply::template Run<R, Multiply::kTokens>(panel, blocks, tokens, sums, t, first);
      }
      for (; t + kTail <= count; t += kTail) {
        const TokensQ8 tokens = TokensAt(*tile.rows, tile.token_begin + t, begin / 32);
        Multiply::template Run<R, kTail>(panel, blocks, tokens, sums, t, first);
      }
      if (t < count) {
        const TokensQ8 tokens = padded->Copy(TokensAt(*tile.rows, tile.token_begin + t, begin / 32), count - t, blocks);
        for (int64_t i = t; !first && i < count; ++i) {
          std::memcpy(spill + (i - t) * kPanelRows, sums.At(i), kPanelRows * sizeof(float));
        }
        Multiply::template Run<R, kTail>(panel, blocks, tokens, PanelSums{spill, kPanelRows}, 0, first);
        for (int64_t i = t; i < count; ++i) {
          std::memcpy(sums.At(i), spill + (i - t) * kPanelRows, kPanelRows * sizeof(float));
        }
      }
    }
    CopyPanelSums(tile, row, valid, sums, kept);
  }
}

}  // namespace
}  // namespace rondo
