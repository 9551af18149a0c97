// Attention by cuDNN: softmax(q k^T * scale) v with its log-sum-exp, in bf16, through cuDNN's C backend API. The
// yardstick of bench/gpu_check: cuDNN does not keep the law of canonical blocks, so nothing else calls it.
//
// libcudnn.so.9 is opened at run time. No vendor type appears here: device memory and streams are void*.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rondo::cuda {

struct CudnnSdpaShape {
  int64_t q_heads = 0;
  int64_t kv_heads = 0;  // divides q_heads
  int64_t head_dim = 0;  // a multiple of 8, at most 256
  int64_t q_tokens = 0;
  int64_t kv_tokens = 0;
  bool causal = false;  // query i sees keys 0..i; asks for q_tokens <= kv_tokens, or rows would see nothing
  float scale = 0;      // positive
};

// Device memory, 16-byte aligned, contiguous.
struct CudnnSdpaTensors {
  const void* q = nullptr;    // bf16 [q_tokens, q_heads, head_dim]
  const void* k = nullptr;    // bf16 [kv_tokens, kv_heads, head_dim]
  const void* v = nullptr;    // as k
  void* out = nullptr;        // bf16, as q
  float* lse = nullptr;       // [q_heads, q_tokens], natural log; heads first, as cuDNN has it
  void* workspace = nullptr;  // workspace_bytes() of them
};

// How attention is put to cuDNN. The engines behind are the same; one operation is what versions since 9.19 offer for
// masks none, the graph of its parts is what every version 9 knows.
enum class CudnnSdpaForm { kAny, kOperation, kGraph };

// A plan for one shape. Not thread-safe; one stream at a time.
class CudnnSdpa {
 public:
  // For the current device. NOT_FOUND without libcudnn, INVALID_ARGUMENT for a shape that makes no sense (with field,
  // value and limit), UNIMPLEMENTED for one that cuDNN has no engine for, with its words.
  static absl::StatusOr<std::unique_ptr<CudnnSdpa>> Create(const CudnnSdpaShape& shape,
                                                           CudnnSdpaForm form = CudnnSdpaForm::kAny);
  // Without a device, for the one that `device_properties` (cuDNN's JSON) describes: the plan can be built, never run.
  static absl::StatusOr<std::unique_ptr<CudnnSdpa>> CreateFor(const std::string& device_properties,
                                                              const CudnnSdpaShape& shape,
                                                              CudnnSdpaForm form = CudnnSdpaForm::kAny);
  ~CudnnSdpa();

  size_t workspace_bytes() const;
  CudnnSdpaForm form() const;  // which it became

  // Queues the computation on `stream` (a cudaStream_t; null: the default stream).
  absl::Status Run(const CudnnSdpaTensors& tensors, void* stream);

 private:
  struct Impl;
  explicit CudnnSdpa(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Version as cuDNN counts it, 91900 for 9.19.0; NOT_FOUND as Create.
absl::StatusOr<int64_t> CudnnVersion();

}  // namespace rondo::cuda
