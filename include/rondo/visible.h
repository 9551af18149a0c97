// Which keys and blocks a query row sees under a mask; used by every attention kernel, and by the ring, which neither
// computes nor sends what nobody sees.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rondo/attention_kernels.h"
#include "rondo/canonical.h"

namespace rondo {

// Half-open range of key positions, or of keys inside a block.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
  constexpr bool empty() const { return end <= begin; }
};

// Keys a query at `position` may see. A mask is always one interval whose ends never fall from one position to the
// next, which is what makes tiles cheap: consecutive rows see, together, all from the first row's begin to the last
// row's end. A position outside of all packed sequences sees nothing.
inline KeyRange VisibleKeys(const MaskSpec& mask, int64_t position) {
  constexpr int64_t kFar = int64_t{1} << 60;  // past every position, far from overflow
  KeyRange keys{-kFar, kFar};
  if (mask.window > 0) {
    const int64_t window = std::min(mask.window, kFar);
    keys = {position - window + 1, position + window};
  }
  if (mask.causal) keys.end = position + 1;
  if (!mask.sequence_starts.empty()) {
    // The last start at or before the position: of equal starts (empty sequences) the last one.
    const auto& starts = mask.sequence_starts;
    const auto next = std::upper_bound(starts.begin(), starts.end(), position);
    if (next == starts.begin()) return {starts.front(), starts.front()};
    if (next == starts.end()) return {starts.back(), starts.back()};
    keys = {std::max(keys.begin, *(next - 1)), std::min(keys.end, *next)};
  }
  return keys;
}

// What the rows at positions [begin, end) see together.
inline KeyRange VisibleKeys(const MaskSpec& mask, int64_t begin, int64_t end) {
  if (end <= begin) return {};
  return {VisibleKeys(mask, begin).begin, VisibleKeys(mask, end - 1).end};
}

// The part of `within` that holds keys of `keys`.
inline BlockRange BlocksWith(const KeyRange& keys, BlockRange within) {
  const int64_t first = std::clamp(keys.begin, within.begin * kBlockTokens, within.end * kBlockTokens);
  const int64_t last = std::clamp(keys.end, within.begin * kBlockTokens, within.end * kBlockTokens);
  if (last <= first) return {within.begin, within.begin};
  return {first / kBlockTokens, (last - 1) / kBlockTokens + 1};
}

// The blocks of `within` that some row of [begin, end) sees. Of a partly filled block all 256 positions count.
inline BlockRange VisibleBlocks(const MaskSpec& mask, int64_t begin, int64_t end, BlockRange within) {
  return BlocksWith(VisibleKeys(mask, begin, end), within);
}

// Whether any row of [begin, end) sees a key of block `block`.
inline bool AnyRowSees(const MaskSpec& mask, int64_t begin, int64_t end, int64_t block) {
  return !VisibleBlocks(mask, begin, end, {block, block + 1}).empty();
}

}  // namespace rondo
