// A client's request, checked and turned into ids: everything that can be wrong with it is found here or by the
// scheduler's admission, before any rank hears of it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/core/job.h"
#include "coordinator/engine/model_info.h"
#include "coordinator/rpc/upload_store.h"
#include "rondo/v1/inference.pb.h"

namespace rondo::coordinator {

inline constexpr uint64_t kInlineLimitBytes = 1u << 20;

// Checks what needs no model: settings, counts, sizes. INVALID_ARGUMENT names the field, the value and the limit.
absl::Status CheckRequest(const v1::GenerateRequest& request);

// The job's request fields (no id, times or key). INVALID_ARGUMENT or NOT_FOUND (an upload).
absl::StatusOr<JobSpec> PrepareJob(const v1::GenerateRequest& request, const ModelInfo& model, UploadStore& uploads,
                                   int64_t now);

// Decimal ids separated by white space, each in 0..vocab-1; an error names the position (from 0) and the text.
absl::StatusOr<std::vector<int32_t>> ParseIds(std::string_view text, int32_t vocab);

}  // namespace rondo::coordinator
