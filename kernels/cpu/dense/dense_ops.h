// What an instruction set provides to the CPU dense kernels: plain functions over one tile or one row. CpuDense splits
// the work over threads and calls these; each translation unit compiled for an instruction set fills one table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rondo/dense_kernels.h"

namespace rondo {

// One product of a matmul: weight rows [row_begin, row_end) with activation rows [token_begin, token_end).
struct MatMulTile {
  const WeightView* weight = nullptr;
  const ActivationRows* rows = nullptr;
  int64_t row_begin = 0, row_end = 0;
  int64_t token_begin = 0, token_end = 0;
  float* y = nullptr;  // [rows->count, weight->rows]
};

// Up to so many activation rows the q8 matmul reads their codes as they are.
inline constexpr int64_t kFewRows = 4;

struct DenseOps {
  std::string_view name;
  // How MatMul is cut into tiles. A tile's rows are a multiple of `panel_rows` but for the last one's.
  int64_t panel_rows = 0;
  int64_t tile_tokens = 0;

  // Blocks of 32: codes [32], scale and scaled_sum [1], code_sums [2] each. docs/ALGORITHMS.md defines the rounding.
  void (*quantise)(const float* x, int64_t blocks, int8_t* codes, float* scale, float* scaled_sum, int16_t* code_sums);
  // How matmul_q8 wants more than kFewRows rows: `group_tokens` at a time, group_bytes(cols) each group in rows.groups,
  // which pack_groups fills from the codes: groups [begin, end). nullptr: it reads the codes.
  void (*pack_groups)(const ActivationRows& rows, int64_t begin, int64_t end, std::byte* groups) = nullptr;
  size_t (*group_bytes)(int64_t cols) = nullptr;
  int64_t group_tokens = 0;
  // `scratch` is kMatMulScratchBytes, 64-byte aligned.
  void (*matmul_f32)(const MatMulTile& tile, std::byte* scratch);
  void (*matmul_q8)(const MatMulTile& tile, std::byte* scratch);
  void (*dequantise)(WeightType type, const std::byte* row, int64_t cols, float* out);
  void (*rms_norm)(const float* x, const float* gain, float eps, int64_t cols, float* y);
  void (*rope)(float* x, int32_t heads, int32_t head_dim, RopePairing pairing, const float* cos, const float* sin,
               int32_t rotated);
  void (*gate)(GateKind kind, const float* gate, const float* up, int64_t elements, float* out);
  void (*add)(float* x, const float* y, int64_t elements);
};

inline constexpr size_t kMatMulScratchBytes = size_t{192} << 10;

}  // namespace rondo
