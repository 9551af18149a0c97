// DenseKernels over a table of DenseOps: splits rows, panels and tokens over the pool's threads; every instruction set
// of the CPU family is one such object.
#pragma once

#include "kernels/cpu/dense/dense_ops.h"
#include "rondo/dense_kernels.h"

namespace rondo {

class CpuDense final : public DenseKernels {
 public:
  explicit CpuDense(const DenseOps& ops) : ops_(ops) {}

  std::string_view name() const override { return ops_.name; }
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

 private:
  const DenseOps& ops_;
};

}  // namespace rondo
