// Who brings which queries and who keeps which blocks in one exchange of the ring, with what each query strip may see:
// from here on the strategies know nothing of plans, chunks or masks. A pure function of its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rondo/attention.h"
#include "rondo/attention_kernels.h"
#include "rondo/canonical.h"
#include "rondo/plan.h"

namespace rondo {

// Rows of a strip at most: short enough to notice a cancellation, and to skip blocks that none of its rows may see. Who
// has larger leaves has a device that wants more rows at once; four blocks of 32 heads fill a large GPU.
constexpr int64_t StripTokens(int leaf_level) { return kBlockTokens << (leaf_level < 2 ? leaf_level : 2); }

// Query rows of consecutive positions between two multiples of StripTokens.
struct Strip {
  int64_t first_position = 0;
  int64_t first_row = 0;  // in its rank's q and out
  int64_t count = 0;
  BlockRange visible;  // exactly the blocks in which some row sees a key
};

struct RingLayout {
  int64_t kv_tokens = 0;
  std::vector<std::vector<Strip>> strips;  // by rank
  // By rank, ascending and maximal, of [0, BlocksFor(kv_tokens)): what it has before the exchange, and what it has kept
  // of all that came past it after it.
  std::vector<std::vector<BlockRange>> blocks;
  std::vector<std::vector<BlockRange>> kept;

  int world() const { return static_cast<int>(strips.size()); }
};

// `rows` and `blocks` by rank; rows are positions, which may be negative. `kept` is `blocks`.
RingLayout MakeLayout(const MaskSpec& mask, int64_t kv_tokens, absl::Span<const std::vector<PositionRun>> rows,
                      std::vector<std::vector<BlockRange>> blocks, int leaf_level);

// One prefill chunk of a planned sequence.
RingLayout ChunkLayout(const MaskSpec& mask, const ShardPlan& plan, int64_t chunk);

// What a strategy needs on a rank beside KV, queries and output, in bytes.
struct RingBuffers {
  size_t wire = 0;   // what is received, and what waits to be sent
  size_t nodes = 0;  // partial nodes of strips that are under way
};

// What the strips of a rank see or what it is to keep; ascending and disjoint.
std::vector<BlockRange> NeededBlocks(const RingLayout& layout, int rank);

// Of ascending, disjoint ranges.
bool Contains(absl::Span<const BlockRange> ranges, int64_t block);
bool Overlaps(absl::Span<const BlockRange> ranges, BlockRange with);

inline BlockRange Intersect(BlockRange a, BlockRange b) {
  const BlockRange both{a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
  return both.empty() ? BlockRange{both.begin, both.begin} : both;
}

}  // namespace rondo
