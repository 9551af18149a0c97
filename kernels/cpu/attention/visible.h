// The part of a row's visible keys that lies in one block; used by every attention kernel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rondo/visible.h"

namespace rondo::attention {

// `positions` as rows of the block.
inline KeyRange VisibleRows(const KeyRange& positions, const KvBlock& block) {
  const int64_t base = block.index * kBlockTokens;
  return {std::clamp<int64_t>(positions.begin - base, 0, block.tokens),
          std::clamp<int64_t>(positions.end - base, 0, block.tokens)};
}

}  // namespace rondo::attention
