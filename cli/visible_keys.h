// Which keys a query of an attention job sees, written down once more from the definition in attention.proto: the
// client checks the ranks' answers by it, so it shares no code with them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rondo/attention_job.h"

namespace rondo::cli {

// Of query row `query`, in key rows; empty where begin >= end.
inline PositionRun VisibleKeysOf(const AttentionJobSpec& spec, int64_t query) {
  const int64_t position = spec.kv_tokens - spec.q_tokens + query;
  PositionRun keys{0, spec.kv_tokens};
  if (spec.causal) keys.end = std::min(keys.end, position + 1);
  if (spec.window > 0) {
    const int64_t window = std::min(spec.window, int64_t{1} << 40);
    keys.begin = std::max(keys.begin, position - window + 1);
    keys.end = std::min(keys.end, position + window);
  }
  if (!spec.sequence_starts.empty()) {
    const std::vector<int64_t>& starts = spec.sequence_starts;
    const auto next = std::upper_bound(starts.begin(), starts.end(), position);  // where the next sequence starts
    const bool inside = next != starts.begin() && next != starts.end();
    const PositionRun own = inside ? PositionRun{*(next - 1), *next} : PositionRun{0, 0};
    keys = {std::max(keys.begin, own.begin), std::min(keys.end, own.end)};
  }
  return keys;
}

}  // namespace rondo::cli
