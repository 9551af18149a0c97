#include "bench/gpu/dense/dense.h"
#include "bench/gpu/lines.h"

namespace rondo::gpu_check {

std::unique_ptr<cuda::LtMatMul> OpenLtMatMul() {
  absl::StatusOr<std::unique_ptr<cuda::LtMatMul>> matmul = cuda::LtMatMul::Create();
  if (!matmul.ok()) Fail(std::string(matmul.status().message()));
  return *std::move(matmul);
}

}  // namespace rondo::gpu_check
