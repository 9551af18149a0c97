// The dense kernels of one GPU by the module's table, as their host side wants them; used by worker/main for ranks that
// hold a model.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/backend/gpu_dense.h"
#include "kernels/cuda/module.h"
#include "worker/device/module_gpu.h"

namespace rondo {

// On the stream of `gpu`, in order with its copies and with attention.
class ModuleDense : public cuda::GpuDense {
 public:
  // The table and `gpu` live as long as this. INTERNAL with cuBLASLt's words.
  static absl::StatusOr<std::unique_ptr<ModuleDense>> Create(const rondo_cuda_module_v1* table, ModuleGpu& gpu);
  ~ModuleDense() override;

  // "cuBLASLt 13.1.0": its algorithms are part of the bits.
  std::string library() const;

  std::string_view family() const override { return gpu_.family(); }
  TensorMemory& memory() override { return gpu_; }
  uint64_t free_bytes() override { return gpu_.free_bytes(); }

  void RmsNorm(const cuda::RmsNormArgs& args) override;
  void Rope(const cuda::RopeArgs& args, RopePairing pairing) override;
  void GatedActivation(const cuda::GatedActivationArgs& args, GateKind kind) override;
  void MoveRows(const cuda::MoveRowsArgs& args) override;
  void Dequantise(const cuda::DequantiseArgs& args, WeightType type, cuda::RowType out) override;
  void PackWeight(const cuda::PackArgs& args, WeightType type) override;
  void MatMulFewRows(const cuda::MatMulFewRowsArgs& args, WeightType type) override;
  absl::Status PrepareLtMatMul(int64_t n, int64_t k) override;
  void LtMatMul(const cuda::LtMatMulArgs& args) override;

 private:
  ModuleDense(const rondo_cuda_dense_v1& table, ModuleGpu& gpu) : table_(table), gpu_(gpu) {}

  const rondo_cuda_dense_v1& table_;
  ModuleGpu& gpu_;
  void* lt_ = nullptr;
};

}  // namespace rondo
