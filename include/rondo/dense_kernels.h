// The dense seam: matmul over every weight type, norm, RoPE, gated activations; called by the decoder, implemented in
// kernels/. Row-invariant by contract: an output row depends on its input row, the kind of row and the weights alone,
// never on how many rows came along or on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "rondo/compute.h"
#include "rondo/tensor_memory.h"

namespace rondo {

class ThreadPool;

// Weight element types, numbered as in GGUF files.
enum class WeightType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

struct WeightTypeInfo {
  std::string_view name;
  int64_t block_elements = 0;
  int64_t block_bytes = 0;
  bool quantised = false;
};
// nullptr for a type Rondo does not read.
const WeightTypeInfo* FindWeightType(WeightType type);

// A matrix as it lies in the model file (mapped, not owned): `rows` output features of `cols` inputs, row-major,
// each row cols / block_elements blocks. Data need not be aligned beyond 32 bytes.
struct WeightView {
  WeightType type = WeightType::kF32;
  const std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  size_t row_bytes = 0;
};

// Activation rows made ready once for several matmuls. PrepareRows fills it; it keeps its storage between calls.
struct ActivationRows {
  RowKind kind = RowKind::kGiven;  // set by the caller of PrepareRows
  ComputeMode mode = ComputeMode::kF32;
  const float* x = nullptr;  // [count, cols], borrowed from the caller of PrepareRows
  int64_t count = 0;
  int64_t cols = 0;
  // Only in kQ8 with cols % 32 == 0: x ~ scale * codes per block of 32; see docs/ALGORITHMS.md for the rounding.
  std::vector<int8_t> codes;       // [count, cols]
  std::vector<float> scale;        // [count, cols / 32]
  std::vector<float> scaled_sum;   // [count, cols / 32], scale * (sum of the block's codes)
  std::vector<int16_t> code_sums;  // [count, cols / 16], for weight types whose codes have an offset
  std::vector<std::byte>
      groups;  // the same once more in the order in which some kernels' products of many rows read them
  bool has_codes() const { return mode == ComputeMode::kQ8 && !codes.empty(); }
};

enum class RopePairing : uint8_t { kInterleaved, kHalves };  // (2i, 2i+1), or (i, i + head_dim / 2)
enum class GateKind : uint8_t { kSilu, kGeluTanh };

class DenseKernels {
 public:
  virtual ~DenseKernels() = default;
  virtual std::string_view name() const = 0;  // ref, portable, avx2, avx512; sm80, sm90, ...

  // Where all float pointers below point but the gains, which are the model's own. It outlives the kernels.
  virtual TensorMemory& memory() const { return HostMemory(); }

  virtual void PrepareRows(ComputeMode mode, const float* x, int64_t count, int64_t cols, ActivationRows* rows,
                           ThreadPool& pool) const = 0;

  // y[i, r] = dot(rows[i], weight row r). A quantised weight meets int8 codes where `rows` has them, float32 of the
  // dequantised weight otherwise: one fma accumulator an element, inner index ascending.
  virtual void MatMul(const WeightView& weight, const ActivationRows& rows, float* y /* [count, weight.rows] */,
                      ThreadPool& pool) const = 0;

  // One row of a weight as float32 (embedding lookup): ggml's formulas, each operation rounded.
  virtual void DequantiseRow(const WeightView& weight, int64_t row, float* out /* [cols] */) const = 0;

  // The rows that `ids` name.
  virtual void DequantiseRows(const WeightView& weight, const int32_t* ids /* [count], host memory */, int64_t count,
                              float* out /* [count, cols] */, ThreadPool& pool) const = 0;

  // y = x / sqrt(mean(x^2) + eps) * gain. y may be x. On CPUs sums run in sixteen fixed lanes and one fixed fold.
  virtual void RmsNorm(const float* x, const float* gain, float eps, int64_t count, int64_t cols, float* y,
                       ThreadPool& pool) const = 0;

  // Rotates x in place. cos and sin come from a RopeTable, so every rank has the same ones.
  virtual void Rope(float* x /* [count, heads, head_dim] */, int64_t count, int32_t heads, int32_t head_dim,
                    RopePairing pairing, const float* cos /* [count, rotated / 2] */, const float* sin,
                    int32_t rotated /* <= head_dim, even */, ThreadPool& pool) const = 0;

  // out = act(gate) * up, element by element; out may be gate or up.
  virtual void GatedActivation(GateKind kind, const float* gate, const float* up, int64_t elements, float* out,
                               ThreadPool& pool) const = 0;

  // x += y.
  virtual void Add(float* x, const float* y, int64_t elements, ThreadPool& pool) const = 0;

  // Add, then RmsNorm of x: one pass over memory where kernels can, and the same bits.
  virtual void AddRmsNorm(float* x, const float* addend, const float* gain, float eps, int64_t count, int64_t cols,
                          float* y /* not x */, ThreadPool& pool) const {
    Add(x, addend, count * cols, pool);
    RmsNorm(x, gain, eps, count, cols, y, pool);
  }
};

}  // namespace rondo
