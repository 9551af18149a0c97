// The dense side of a GPU that is not there: the CUDA kernels on the emulator, a plain product in cuBLASLt's place,
// over the fenced memory of an EmulatedGpu; used by the tests of the backend and of models on GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "kernels/cuda/backend/gpu_dense.h"
#include "tests/kernels/cuda/backend/emulated_gpu.h"

namespace rondo::cuda {

class EmulatedDense : public GpuDense {
 public:
  explicit EmulatedDense(EmulatedGpu& gpu, simt::Options options = {}) : gpu_(gpu), options_(std::move(options)) {}

  std::string_view family() const override { return gpu_.family(); }
  TensorMemory& memory() override { return gpu_; }
  uint64_t free_bytes() override { return free_bytes_; }

  void RmsNorm(const RmsNormArgs& args) override;
  void Rope(const RopeArgs& args, RopePairing pairing) override;
  void GatedActivation(const GatedActivationArgs& args, GateKind kind) override;
  void MoveRows(const MoveRowsArgs& args) override;
  void Dequantise(const DequantiseArgs& args, WeightType type, RowType out) override;
  void PackWeight(const PackArgs& args, WeightType type) override;
  void MatMulFewRows(const MatMulFewRowsArgs& args, WeightType type) override;
  absl::Status PrepareLtMatMul(int64_t n, int64_t k) override;
  // In double, ascending, rounded once. Reads all rows of the padded chunks and leaves NaN in those that are padding.
  void LtMatMul(const LtMatMulArgs& args) override;

  void set_free_bytes(uint64_t bytes) { free_bytes_ = bytes; }
  void set_refused_outputs(int64_t n) { refused_ = n; }  // of PrepareLtMatMul
  // Launches by kernel since the last call.
  std::map<std::string, int> TakeLaunches() { return std::exchange(launches_, {}); }

 private:
  void Launch(const char* name, int threads, size_t shared_bytes, const std::function<void()>& kernel);

  EmulatedGpu& gpu_;
  simt::Options options_;
  uint64_t free_bytes_ = uint64_t{1} << 40;
  int64_t refused_ = -1;
  std::set<std::pair<int64_t, int64_t>> prepared_;
  std::map<std::string, int> launches_;
};

}  // namespace rondo::cuda
