// What the CUDA decode kernels are told: a few query rows each of several sequences, in one launch. Plain structs, as
// in args.h, whose rules about strides and positions hold here too.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/args.h"

namespace rondo::cuda {

// Canonical blocks of decode. Smaller than those of many rows: a block is one CTA's, and 32k keys of 8 KV heads are 256
// of these, enough for all multiprocessors of a large GPU. Run-time blocks of KeyArgs are of this size here.
inline constexpr int kDecodeBlockTokens = 1024;

struct DecodeSequence {
  QueryArgs query;
  KeyArgs keys;
  // Partials of single blocks, [blocks, rows, q_heads] as nodes of level 0: written by the first kernel, overwritten by
  // the fold. Rows of one node may be any distance apart.
  NodeArgs leaves;
  NodeArgs nodes;  // DyadicNodes(run), used where output.out is null
  OutputArgs output;
  int64_t visible_begin = 0;  // as in MaskArgs
  int64_t visible_end = int64_t{1} << 60;
  // Totals over the sequences before this one: of DecodeItems and of rows.
  int64_t first_item = 0;
  int64_t first_row = 0;
};

struct DecodeArgs {
  int32_t q_heads = 0;
  int32_t kv_heads = 0;
  bool causal = true;
  int64_t window = 0;
  ScoreArgs score;
  const DecodeSequence* sequences = nullptr;  // [count], in device memory
  int32_t count = 0;
  int64_t rows = 0;  // of all sequences
};

// Rows of a 16-row tile: the query rows of a sequence times the heads that share a KV head.
inline constexpr int kDecodeRows = 16;
constexpr int64_t DecodeRowTiles(int64_t rows, int64_t q_heads, int64_t kv_heads) {
  return (rows * (q_heads / kv_heads) + kDecodeRows - 1) / kDecodeRows;
}
// CTAs of the first kernel for one sequence: one a block, KV head and tile of rows.
constexpr int64_t DecodeItems(int64_t rows, int64_t q_heads, int64_t kv_heads, int64_t blocks) {
  return blocks * kv_heads * DecodeRowTiles(rows, q_heads, kv_heads);
}

}  // namespace rondo::cuda
