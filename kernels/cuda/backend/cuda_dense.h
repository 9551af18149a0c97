// The dense seam on a GPU: rows and weights in its memory, products by the kind of row; used by a rank that holds a
// model and runs with --device cuda.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cuda/backend/device_weights.h"
#include "kernels/cuda/backend/gpu_dense.h"
#include "rondo/dense_kernels.h"
#include "rondo/model.h"

namespace rondo::cuda {

// Compute mode bf16 alone. Which kernel multiplies a row follows from its kind and the weight's type, never from how
// many rows there are:
//
//   drawn rows, Q4_1, Q8_0 and Q4_K   MatMulFewRows: float32 rows, packed codes
//   all others                        LtMatMul: rows and weights in bf16, chunks of 128 rows, the last one padded
//
// One thread at a time. The weights are those of one model.
class CudaDense final : public DenseKernels {
 public:
  // Uploads the weights and takes scratch for 256 rows at a time. `gpu` and `weights` outlive this. Errors are
  // DeviceWeights::Upload's.
  static absl::StatusOr<std::unique_ptr<CudaDense>> Create(GpuDense& gpu, const ModelWeights& weights);

  std::string_view name() const override { return gpu_.family(); }
  TensorMemory& memory() const override { return gpu_.memory(); }

  void PrepareRows(ComputeMode mode, const float* x, int64_t count, int64_t cols, ActivationRows* rows,
                   ThreadPool& pool) const override;
  void MatMul(const WeightView& weight, const ActivationRows& rows, float* y, ThreadPool& pool) const override;
  void DequantiseRow(const WeightView& weight, int64_t row, float* out) const override;
  void DequantiseRows(const WeightView& weight, const int32_t* ids, int64_t count, float* out,
                      ThreadPool& pool) const override;
  void RmsNorm(const float* x, const float* gain, float eps, int64_t count, int64_t cols, float* y,
               ThreadPool& pool) const override;
  void Rope(float* x, int64_t count, int32_t heads, int32_t head_dim, RopePairing pairing, const float* cos,
            const float* sin, int32_t rotated, ThreadPool& pool) const override;
  void GatedActivation(GateKind kind, const float* gate, const float* up, int64_t elements, float* out,
                       ThreadPool& pool) const override;
  void Add(float* x, const float* y, int64_t elements, ThreadPool& pool) const override;
  void AddRmsNorm(float* x, const float* addend, const float* gain, float eps, int64_t count, int64_t cols, float* y,
                  ThreadPool& pool) const override;

 private:
  CudaDense(GpuDense& gpu, DeviceWeights weights);
  const uint16_t* Rounded(const ActivationRows& rows) const;
  void MultiplyRounded(const uint16_t* weight, int64_t n, const ActivationRows& rows, float* y) const;
  void Lookup(const WeightView& weight, const int32_t* ids, int64_t count, float* out) const;

  GpuDense& gpu_;
  const DeviceWeights weights_;
  mutable TensorBuffer ids_;
  mutable TensorBuffer rounded_;                        // bf16 [LtPaddedRows(count), cols]
  mutable const ActivationRows* rounded_of_ = nullptr;  // whose rows these are; none since the last PrepareRows
  mutable TensorBuffer padded_;                         // what cuBLASLt computed of a chunk that y has no room for
};

}  // namespace rondo::cuda
