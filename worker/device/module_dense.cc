#include "worker/device/module_dense.h"

#include "absl/strings/str_cat.h"

namespace rondo {

absl::StatusOr<std::unique_ptr<ModuleDense>> ModuleDense::Create(const rondo_cuda_module_v1* table, ModuleGpu& gpu) {
  std::unique_ptr<ModuleDense> dense(new ModuleDense(table->dense, gpu));
  gpu.Use();
  if (const char* const words = table->dense.lt_create(&dense->lt_); words != nullptr) {
    return absl::InternalError(words);
  }
  return dense;
}

ModuleDense::~ModuleDense() {
  if (lt_ == nullptr) return;
  gpu_.Use();
  table_.lt_destroy(lt_);
}

std::string ModuleDense::library() const {
  const uint64_t version = table_.lt_version();
  return absl::StrCat("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

void ModuleDense::RmsNorm(const cuda::RmsNormArgs& args) {
  gpu_.Use();
  ModuleGpu::CheckLaunch(table_.rms_norm(&args, gpu_.stream()), "RMS norm");
}

void ModuleDense::Rope(const cuda::RopeArgs& args, RopePairing pairing) {
  gpu_.Use();
  ModuleGpu::CheckLaunch(table_.rope(&args, pairing, gpu_.stream()), "RoPE");
}

void ModuleDense::GatedActivation(const cuda::GatedActivationArgs& args, GateKind kind) {
  gpu_.Use();
  ModuleGpu::CheckLaunch(table_.gated_activation(&args, kind, gpu_.stream()), "gated activation");
}

void ModuleDense::MoveRows(const cuda::MoveRowsArgs& args) {
  gpu_.Use();
  ModuleGpu::CheckLaunch(table_.move_rows(&args, gpu_.stream()), "move rows");
}

void ModuleDense::Dequantise(const cuda::DequantiseArgs& args, WeightType type, cuda::RowType out) {
  gpu_.Use();
  ModuleGpu::CheckLaunch(table_.dequantise(&args, type, out, gpu_.stream()), "dequantise");
}

void ModuleDense::PackWeight(const cuda::PackArgs& args, WeightType type) {
  gpu_.Use();
  ModuleGpu::CheckLaunch(table_.pack_weight(&args, type, gpu_.stream()), "pack a weight");
}

void ModuleDense::MatMulFewRows(const cuda::MatMulFewRowsArgs& args, WeightType type) {
  gpu_.Use();
  ModuleGpu::CheckLaunch(table_.matmul_few_rows(&args, type, gpu_.stream()), "product with packed weights");
}

absl::Status ModuleDense::PrepareLtMatMul(int64_t n, int64_t k) {
  gpu_.Use();
  const char* const words = table_.lt_prepare(lt_, n, k);
  return words == nullptr ? absl::OkStatus() : absl::UnimplementedError(words);
}

void ModuleDense::LtMatMul(const cuda::LtMatMulArgs& args) {
  gpu_.Use();
  ModuleGpu::CheckLaunch(table_.lt_matmul(lt_, &args, gpu_.stream()), "product");
}

}  // namespace rondo
