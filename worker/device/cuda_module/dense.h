// The dense kernels of the GPU module as its table has them; used by runtime.cc. Without nvcc there are none.
#pragma once

#include "kernels/cuda/module.h"

#if RONDO_HAVE_CUDA_KERNELS
#include <cublasLt.h>

#include "kernels/cuda/dense/launch.h"
#include "kernels/cuda/dense/lt_matmul.h"
#include "worker/device/cuda_module/kernels.h"
#endif

namespace rondo::cuda_module {

#if RONDO_HAVE_CUDA_KERNELS

inline const char* RmsNorm(const cuda::RmsNormArgs* args, void* stream) {
  return Words(cuda::LaunchRmsNorm(*args, cuda::RowType::kF32, cuda::RowType::kF32, stream));
}
inline const char* Rope(const cuda::RopeArgs* args, RopePairing pairing, void* stream) {
  return Words(cuda::LaunchRope(*args, cuda::RowType::kF32, pairing, stream));
}
inline const char* GatedActivation(const cuda::GatedActivationArgs* args, GateKind kind, void* stream) {
  return Words(cuda::LaunchGatedActivation(*args, cuda::RowType::kF32, cuda::RowType::kF32, kind, stream));
}
inline const char* MoveRows(const cuda::MoveRowsArgs* args, void* stream) {
  return Words(cuda::LaunchMoveRows(*args, stream));
}
inline const char* Dequantise(const cuda::DequantiseArgs* args, WeightType type, cuda::RowType out, void* stream) {
  return Words(cuda::LaunchDequantise(*args, type, out, stream));
}
inline const char* PackWeight(const cuda::PackArgs* args, WeightType type, void* stream) {
  return Words(cuda::LaunchPackWeight(*args, type, stream));
}
inline const char* MatMulFewRows(const cuda::MatMulFewRowsArgs* args, WeightType type, void* stream) {
  return Words(cuda::LaunchMatMulFewRows(*args, type, cuda::RowType::kF32, stream));
}

inline uint64_t LtVersion() { return cublasLtGetVersion(); }
inline const char* LtCreate(void** lt) {
  absl::StatusOr<std::unique_ptr<cuda::LtMatMul>> made = cuda::LtMatMul::Create();
  if (made.ok()) *lt = made->release();
  return Words(std::string(made.status().message()));
}
inline void LtDestroy(void* lt) { delete static_cast<cuda::LtMatMul*>(lt); }
inline const char* LtPrepare(void* lt, int64_t n, int64_t k) {
  const absl::Status status =
      static_cast<cuda::LtMatMul*>(lt)->Prepare(cuda::RowType::kBf16, cuda::RowType::kF32, n, k);
  return Words(std::string(status.message()));
}
inline const char* LtMatMul(void* lt, const cuda::LtMatMulArgs* args, void* stream) {
  return Words(std::string(static_cast<cuda::LtMatMul*>(lt)->Run(*args, stream).message()));
}

inline constexpr rondo_cuda_dense_v1 kDense = {
    .rms_norm = RmsNorm,
    .rope = Rope,
    .gated_activation = GatedActivation,
    .move_rows = MoveRows,
    .dequantise = Dequantise,
    .pack_weight = PackWeight,
    .matmul_few_rows = MatMulFewRows,
    .lt_version = LtVersion,
    .lt_create = LtCreate,
    .lt_destroy = LtDestroy,
    .lt_prepare = LtPrepare,
    .lt_matmul = LtMatMul,
};

#else

inline constexpr rondo_cuda_dense_v1 kDense = {};

#endif

}  // namespace rondo::cuda_module
