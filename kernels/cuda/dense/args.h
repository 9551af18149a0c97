// What the dense CUDA kernels are told: plain structs of device pointers and sizes. Filled by the launchers' callers
// and by the tests; read by the kernels. No CUDA type appears here.
//
// Unless a field says otherwise rows lie one after the other without gaps and begin on 16 bytes. Every kernel is
// row-invariant: a row's bits depend on its input and the weights alone, not on how many rows came along or on the
// grid.
#pragma once

#include <cstdint>

#include "rondo/dense_kernels.h"

namespace rondo::cuda {

// Activations in memory. Arithmetic is float32 for all of them.
enum class RowType : uint8_t { kF32, kBf16, kFp16 };

// x += addend where there is one, then out = x / sqrt(mean(x^2) + eps) * gain.
struct RmsNormArgs {
  float* x = nullptr;            // [rows, cols]
  const void* addend = nullptr;  // [rows, cols] of the kernel's addend type, or null
  const float* gain = nullptr;   // [cols]
  void* out = nullptr;           // [rows, cols] of the kernel's out type; may be x where that is float
  int64_t rows = 0;
  int32_t cols = 0;  // a multiple of 4
  float eps = 0;
};

// Rotates x in place. Queries and keys that lie side by side are one launch: heads counts both.
struct RopeArgs {
  void* x = nullptr;           // [rows, heads, head_dim], rows row_stride elements apart
  const float* cos = nullptr;  // [rows, rotated / 2]
  const float* sin = nullptr;
  int64_t row_stride = 0;
  int64_t rows = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t rotated = 0;  // even, at most head_dim
};

// out = act(gate) * up. Gate and up may be the two halves of the rows of one matrix.
struct GatedActivationArgs {
  const void* gate = nullptr;  // [rows, cols], rows in_stride elements apart
  const void* up = nullptr;
  int64_t in_stride = 0;  // a multiple of 4
  void* out = nullptr;    // [rows, cols]; may be gate or up where in_stride is cols and the types are the same
  int64_t rows = 0;
  int32_t cols = 0;  // a multiple of 4
};

// Rows of a weight as it lies in a GGUF file, dequantised by ggml's formulas: those that `ids` names, or all in order.
struct DequantiseArgs {
  const uint8_t* weight = nullptr;  // on 4 bytes
  int64_t row_bytes = 0;
  const int32_t* ids = nullptr;  // [rows], within the weight; or null
  void* out = nullptr;           // [rows, cols] of the kernel's out type
  int64_t rows = 0;
  int64_t cols = 0;  // a multiple of 4 and of the type's block
};

// Copies rows, or adds them to what is there. Rows may begin anywhere.
struct MoveRowsArgs {
  const float* from = nullptr;  // [rows, cols], rows from_stride elements apart
  float* to = nullptr;          // the same, to_stride apart
  int64_t from_stride = 0;
  int64_t to_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  bool add = false;  // to += from
};

// The first k of each row by (logit descending, id ascending), which is (probability descending, id ascending). NaN and
// +infinity come first of all. Works in rounds; see top_k.cuh.
struct TopKArgs {
  const float* logits = nullptr;       // [rows, count]: the first round; else null
  const uint64_t* ranks_in = nullptr;  // [rows, count]: what the last round left
  uint64_t* ranks_out = nullptr;       // [rows, slices, k]; the last round's are the answer
  int64_t rows = 0;
  int32_t count = 0;
  int32_t k = 0;
};

// Packs rows of a Q4_1, Q8_0 or Q4_K weight for MatMulFewRows.
struct PackArgs {
  const uint8_t* weight = nullptr;  // on 4 bytes
  int64_t row_bytes = 0;
  uint8_t* packed = nullptr;  // PackedWeight<type>(rows, cols).bytes() of them, on 16 bytes
  int32_t rows = 0;
  int32_t cols = 0;  // a multiple of the type's block
};

// y[i, r] = dot(x[i], weight row r).
struct MatMulFewRowsArgs {
  const uint8_t* packed = nullptr;
  const void* x = nullptr;  // [count, cols] of the kernel's x type
  void* y = nullptr;        // [count, rows]
  bool y_is_float = true;   // else bf16
  int64_t count = 0;        // any; weights are read once for every eight
  int32_t rows = 0;
  int32_t cols = 0;
};

// Large enough to fill a card with one weight of usual size, small enough that a padded decode step is not absurd.
inline constexpr int64_t kLtRows = 128;

constexpr int64_t LtPaddedRows(int64_t rows) { return (rows + kLtRows - 1) / kLtRows * kLtRows; }

// y = x * weight^T by cuBLASLt.
struct LtMatMulArgs {
  RowType type = RowType::kBf16;   // of weight and x: bf16 or fp16
  RowType y_type = RowType::kF32;  // f32, or `type`
  const void* weight = nullptr;    // [n, k]
  const void* x = nullptr;         // [LtPaddedRows(rows), k]; the padding is read, its values do not matter
  void* y = nullptr;               // [LtPaddedRows(rows), n]; the padding is written
  int64_t rows = 0;
  int64_t n = 0;  // multiples of 8: rows begin on 16 bytes, as the three pointers do
  int64_t k = 0;
};

}  // namespace rondo::cuda
