#include "kernels/cuda/backend/segments.h"

#include <algorithm>

namespace rondo::cuda {

Segment SegmentAt(const MaskSpec& mask, const QueryRows& queries, int64_t row) {
  constexpr int64_t kFar = int64_t{1} << 60;
  const absl::Span<const int64_t> starts = mask.sequence_starts;
  // Queries may lie before all keys; no key has a negative position.
  if (starts.empty()) return {row, queries.count, 0, kFar};
  const int64_t position = queries.first_position + row;
  const auto next = std::upper_bound(starts.begin(), starts.end(), position);
  const int64_t last = next == starts.end() ? kFar : *next;
  const int64_t end = std::min(queries.count, last - queries.first_position);
  // Outside of all sequences: nothing.
  if (next == starts.begin() || next == starts.end()) return {row, end, 0, 0};
  return {row, end, *(next - 1), *next};
}

}  // namespace rondo::cuda
