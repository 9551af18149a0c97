// One CUDA device as the dense layers' host side sees it: the launches of kernels/cuda/dense over its memory;
// implemented over the GPU module, and over the emulator in tests.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/cuda/dense/args.h"
#include "rondo/tensor_memory.h"

namespace rondo::cuda {

// As of Gpu: launches happen in order with the copies of memory(), and what fails on the device ends the process. One
// thread at a time. Rows are float32 but for LtMatMul's.
class GpuDense {
 public:
  virtual ~GpuDense() = default;
  virtual std::string_view family() const = 0;  // sm80, sm90: which bits it gives
  virtual TensorMemory& memory() = 0;
  virtual uint64_t free_bytes() = 0;  // of the device, now

  virtual void RmsNorm(const RmsNormArgs& args) = 0;
  virtual void Rope(const RopeArgs& args, RopePairing pairing) = 0;
  virtual void GatedActivation(const GatedActivationArgs& args, GateKind kind) = 0;
  virtual void MoveRows(const MoveRowsArgs& args) = 0;
  virtual void Dequantise(const DequantiseArgs& args, WeightType type, RowType out) = 0;
  virtual void PackWeight(const PackArgs& args, WeightType type) = 0;
  virtual void MatMulFewRows(const MatMulFewRowsArgs& args, WeightType type) = 0;

  // Whether there is a product of bf16 with float32 results for weights [n, k]; chosen here, so that LtMatMul needs
  // only start it.
  virtual absl::Status PrepareLtMatMul(int64_t n, int64_t k) = 0;
  virtual void LtMatMul(const LtMatMulArgs& args) = 0;
};

}  // namespace rondo::cuda
