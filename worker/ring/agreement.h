// The end of a prefill chunk: all ranks learn whether any of them has skipped work because the job was cancelled.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "worker/ring/ring_context.h"

namespace rondo {

// OK on every rank or CANCELLED on every rank: CANCELLED if any rank passed `skipped` or knows of the cancellation.
// One exchange of headers.
absl::Status AgreeToGoOn(RingContext& context, int32_t layer, int64_t position, bool skipped);

}  // namespace rondo
