// The shape of an attention problem as people write it, "32/8x128": query heads, KV heads, head dimension.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "rondo/attention_kernels.h"

namespace rondo {

// scale is 1/sqrt(head_dim). INVALID_ARGUMENT naming what is wrong.
absl::StatusOr<AttentionShape> ParseHeads(std::string_view text, KvType kv_type);

}  // namespace rondo
