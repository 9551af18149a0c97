// The tensors of an attention job as the client has them: files, checked against each other and turned into the job's
// specification.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/tensor_file.h"
#include "rondo/attention_job.h"
#include "rondo/v1/attention.pb.h"

namespace rondo::cli {

struct AttendOptions {
  std::string q, k, v;
  bool causal = false;
  int64_t window = 0;
  float scale = 0;  // 0: 1 / sqrt(head_dim)
  float softcap = 0;
  std::string sinks, alibi, cu_seqlens;  // a file, or numbers separated by commas; empty: none
  std::string dtype;                     // f32 | bf16; empty: bf16 where K and V are, else f32
  uint32_t workers = 0;
  std::string strategy = "auto";
  bool lse = false;
};

struct AttendTensors {
  std::shared_ptr<const TensorFile> q, k, v;
  v1::AttentionSpec message;  // as it is sent
  AttentionJobSpec spec;      // the same, checked

  const TensorFile& Of(v1::Tensor tensor) const { return tensor == v1::Q ? *q : tensor == v1::K ? *k : *v; }
  int64_t RowElements(v1::Tensor tensor) const { return tensor == v1::Q ? spec.QRow() : spec.KvRow(); }
};

// Opens the files and checks what can be seen without a coordinator. INVALID_ARGUMENT names the option, the value and
// the limit.
absl::StatusOr<AttendTensors> LoadAttendTensors(const AttendOptions& options);

// Element `i` of an array of a float type, wherever it lies.
float LoadElement(const TensorFile& file, int64_t i);

// INVALID_ARGUMENT naming the first element of Q, K or V that is not finite, and that some query sees.
absl::Status CheckFinite(const AttendTensors& tensors);

}  // namespace rondo::cli
