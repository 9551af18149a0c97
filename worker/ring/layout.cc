#include "worker/ring/layout.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "rondo/visible.h"

namespace rondo {
namespace {

// The next multiple of `grain` above a position that may be negative.
int64_t NextMultiple(int64_t position, int64_t grain) {
  const int64_t rest = position % grain;
  return position - rest + (rest < 0 ? 0 : grain);
}

std::vector<Strip> CutStrips(const MaskSpec& mask, int64_t kv_tokens, absl::Span<const PositionRun> runs,
                             int64_t strip_tokens) {
  std::vector<Strip> strips;
  int64_t row = 0;
  for (const PositionRun& run : runs) {
    for (int64_t begin = run.begin; begin < run.end;) {
      const int64_t end = std::min(run.end, NextMultiple(begin, strip_tokens));
      strips.push_back({begin, row, end - begin, VisibleBlocks(mask, begin, end, {0, BlocksFor(kv_tokens)})});
      row += end - begin;
      begin = end;
    }
  }
  return strips;
}

}  // namespace

RingLayout MakeLayout(const MaskSpec& mask, int64_t kv_tokens, absl::Span<const std::vector<PositionRun>> rows,
                      std::vector<std::vector<BlockRange>> blocks, int leaf_level) {
  RONDO_CHECK(rows.size() == blocks.size());
  RingLayout layout;
  layout.kv_tokens = kv_tokens;
  for (const std::vector<PositionRun>& runs : rows) {
    layout.strips.push_back(CutStrips(mask, kv_tokens, runs, StripTokens(leaf_level)));
  }
  layout.kept = blocks;
  layout.blocks = std::move(blocks);
  return layout;
}

RingLayout ChunkLayout(const MaskSpec& mask, const ShardPlan& plan, int64_t chunk) {
  const int64_t end = plan.Chunk(chunk).end;
  std::vector<std::vector<PositionRun>> rows;
  std::vector<std::vector<BlockRange>> blocks, kept;
  for (int rank = 0; rank < plan.world(); ++rank) {
    rows.push_back(plan.Rows(chunk, rank));
    kept.push_back(plan.OwnedBlocks(end, rank));
    // Of several chunks each rank keeps what it computed.
    blocks.push_back(plan.chunk_count() == 1 ? plan.ComputedBlocks(rank) : kept.back());
  }
  RingLayout layout = MakeLayout(mask, end, rows, std::move(blocks), plan.leaf_level());
  layout.kept = std::move(kept);
  return layout;
}

std::vector<BlockRange> NeededBlocks(const RingLayout& layout, int rank) {
  std::vector<BlockRange> ranges = layout.kept[rank];
  for (const Strip& strip : layout.strips[rank]) {
    if (!strip.visible.empty()) ranges.push_back(strip.visible);
  }
  std::sort(ranges.begin(), ranges.end());
  size_t last = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin <= ranges[last].end) {
      ranges[last].end = std::max(ranges[last].end, ranges[i].end);
    } else {
      ranges[++last] = ranges[i];
    }
  }
  if (!ranges.empty()) ranges.resize(last + 1);
  return ranges;
}

bool Contains(absl::Span<const BlockRange> ranges, int64_t block) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), block,
                                      [](int64_t b, const BlockRange& range) { return b < range.begin; });
  return after != ranges.begin() && block < (after - 1)->end;
}

bool Overlaps(absl::Span<const BlockRange> ranges, BlockRange with) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [with](const BlockRange& range) { return !Intersect(range, with).empty(); });
}

}  // namespace rondo
