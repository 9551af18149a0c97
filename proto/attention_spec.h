// AttentionJobSpec from and to its message: the coordinator reads what clients ask for, ranks what the coordinator
// tells.
#pragma once

#include "absl/status/statusor.h"
#include "rondo/attention_job.h"
#include "rondo/v1/attention.pb.h"

namespace rondo {

// Everything that can be wrong with a spec by itself: INVALID_ARGUMENT naming the field, the value and the limit.
absl::StatusOr<AttentionJobSpec> FromProto(const v1::AttentionSpec& from);
v1::AttentionSpec ToProto(const AttentionJobSpec& from);

}  // namespace rondo
