// Dense layers as plain loops in double, rounded to float at the end: the yardstick the CPU family's error is measured
// against. Slow by design; used by tests and `--kernels ref`.
#pragma once

#include "rondo/dense_kernels.h"

namespace rondo {

// In q8 mode it meets the same int8 codes as the CPU family (their rounding is part of the mode) but sums in double.
class DenseRef final : public DenseKernels {
 public:
  std::string_view name() const override { return "ref"; }
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
};

}  // namespace rondo
