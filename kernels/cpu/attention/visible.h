// Which keys a row sees, as intervals; used by every attention kernel so that they mean the same mask.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rondo/attention_kernels.h"

namespace rondo::attention {

// Half-open range of key positions, or of keys inside a block.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
  constexpr bool empty() const { return end <= begin; }
};

// Positions a query at `position` may see. A mask is always one interval: that is what makes tiles cheap.
inline KeyRange VisiblePositions(const MaskSpec& mask, int64_t position) {
  constexpr int64_t kFar = int64_t{1} << 60;  // past every position, far from overflow
  return {mask.window > 0 ? position - std::min(mask.window, kFar) + 1 : -kFar, mask.causal ? position + 1 : kFar};
}

// The part of it in `block`, as rows of the block.
inline KeyRange VisibleRows(const KeyRange& positions, const KvBlock& block) {
  const int64_t base = block.index * kBlockTokens;
  return {std::clamp<int64_t>(positions.begin - base, 0, block.tokens),
          std::clamp<int64_t>(positions.end - base, 0, block.tokens)};
}

// The part of [run.begin, run.end) that holds keys of `positions`.
inline BlockRange VisibleBlocks(const KeyRange& positions, BlockRange run) {
  const int64_t first = std::clamp(positions.begin, run.begin * kBlockTokens, run.end * kBlockTokens);
  const int64_t last = std::clamp(positions.end, run.begin * kBlockTokens, run.end * kBlockTokens);
  if (last <= first) return {run.begin, run.begin};
  return {first / kBlockTokens, (last - 1) / kBlockTokens + 1};
}

}  // namespace rondo::attention
