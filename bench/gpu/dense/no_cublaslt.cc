// Stands for cublaslt.cc where gpu_check was built without cuBLASLt.
#include "bench/gpu/dense/dense.h"
#include "bench/gpu/lines.h"

namespace rondo::gpu_check {

std::unique_ptr<cuda::LtMatMul> OpenLtMatMul() {
  Line("absent").Text("what", "cuBLASLt").Text("why", "it was not there when gpu_check was built").Say();
  return nullptr;
}

}  // namespace rondo::gpu_check
