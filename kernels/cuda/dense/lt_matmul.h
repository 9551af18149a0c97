// Products of many activation rows with bf16 or fp16 weights by cuBLASLt, held to row invariance; used by the backend's
// dense layers for prefill. No CUDA type appears here; the source is compiled where the CUDA toolkit was found.
//
// Rows go in chunks of exactly kLtRows, the last one padded, so that whatever the batch the library sees one shape for
// each weight; the algorithm for a shape is chosen once, the first of the library's heuristic that does not split the
// inner dimension and gives equal rows equal bits wherever they lie in a chunk, which is tried, and kept. The bits are
// those of one card type and one version of the library.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/dense/args.h"

namespace rondo::cuda {

// One stream at a time: calls share a workspace.
class LtMatMul {
 public:
  // For the calling thread's current device. INTERNAL with the library's words where that fails.
  static absl::StatusOr<std::unique_ptr<LtMatMul>> Create();
  virtual ~LtMatMul() = default;

  // Chooses the algorithm of a shape, so that Run cannot fail for want of one: INTERNAL and UNIMPLEMENTED as there,
  // RESOURCE_EXHAUSTED where there is no memory to try it.
  virtual absl::Status Prepare(RowType /*type*/, RowType /*y_type*/, int64_t /*n*/, int64_t /*k*/) {
    return absl::OkStatus();
  }

  // Puts the product on the stream (a cudaStream_t). INVALID_ARGUMENT naming field and value; INTERNAL with the
  // library's words; UNIMPLEMENTED where it has no algorithm for the shape. The first call of a shape must not be
  // captured.
  virtual absl::Status Run(const LtMatMulArgs& args, void* stream) = 0;
};

}  // namespace rondo::cuda
