#include "rondo/plan.h"

#include <algorithm>

#include "base/check.h"
#include "worker/ring/deal.h"

namespace rondo {
namespace {

constexpr int64_t kDecodeRun = 4;

int64_t LeavesFor(int64_t blocks, int leaf_level) { return WholeLeaves({0, blocks}, leaf_level).end >> leaf_level; }

// The rank of every block, from the rank of every leaf.
std::vector<int> ByBlock(const std::vector<int>& leaves, int leaf_level) {
  std::vector<int> blocks;
  blocks.reserve(leaves.size() << leaf_level);
  for (const int rank : leaves) blocks.insert(blocks.end(), size_t{1} << leaf_level, rank);
  return blocks;
}

template <typename Belongs>
std::vector<BlockRange> Runs(int64_t blocks, const Belongs& belongs) {
  std::vector<BlockRange> runs;
  for (int64_t block = 0; block < blocks; ++block) {
    if (!belongs(block)) continue;
    if (!runs.empty() && runs.back().end == block) {
      ++runs.back().end;
    } else {
      runs.push_back({block, block + 1});
    }
  }
  return runs;
}

}  // namespace

ShardPlan ShardPlan::Zigzag(int64_t tokens, int world, int64_t prefill_chunk, int leaf_level) {
  RONDO_CHECK(tokens >= 0 && world >= 1 && prefill_chunk >= 0 && leaf_level >= 0 && leaf_level < 16);
  ShardPlan plan;
  plan.tokens_ = tokens;
  plan.world_ = world;
  plan.chunk_ = prefill_chunk == 0 ? std::max<int64_t>(tokens, 1) : prefill_chunk;
  plan.leaf_level_ = leaf_level;
  const int64_t leaves = LeavesFor(BlocksFor(tokens), leaf_level);
  const int64_t segment_leaves = std::max<int64_t>(1, std::min(LeavesFor(BlocksFor(plan.chunk_), leaf_level), leaves));
  std::vector<int> computers;
  computers.reserve(leaves);
  std::vector<int> order(world);
  for (int64_t segment = 0; segment * segment_leaves < leaves; ++segment) {
    for (int slot = 0; slot < world; ++slot) order[slot] = static_cast<int>((slot + segment) % world);
    DealZigzag(std::min(segment_leaves, leaves - segment * segment_leaves), order, computers);
  }
  plan.computers_ = ByBlock(computers, leaf_level);
  if (plan.chunk_count() == 1) {
    std::vector<int> owners;
    DealAligned(leaves, world, owners);
    plan.owners_ = ByBlock(owners, leaf_level);
  } else {
    plan.owners_ = plan.computers_;
  }
  return plan;
}

// Past the prompt four blocks in a row go to one rank: then an answer of 1,024 tokens is one node of a decode step.
int ShardPlan::Owner(int64_t block) const {
  if (block < static_cast<int64_t>(owners_.size())) return owners_[block];
  return static_cast<int>(block / std::max(kDecodeRun, int64_t{1} << leaf_level_) % world_);
}

int64_t ShardPlan::chunk_count() const { return tokens_ / chunk_ + (tokens_ % chunk_ != 0 ? 1 : 0); }

PositionRun ShardPlan::Chunk(int64_t chunk) const {
  RONDO_CHECK(chunk >= 0 && chunk < chunk_count());
  const int64_t begin = chunk * chunk_;
  return {begin, begin + std::min(chunk_, tokens_ - begin)};
}

std::vector<PositionRun> ShardPlan::Rows(int64_t chunk, int rank) const {
  const PositionRun range = Chunk(chunk);
  std::vector<PositionRun> rows;
  for (int64_t block = BlockOf(range.begin); block < BlocksFor(range.end); ++block) {
    if (Computer(block) != rank) continue;
    const int64_t begin = std::max(range.begin, block * kBlockTokens);
    const int64_t end = std::min(range.end, (block + 1) * kBlockTokens);
    if (!rows.empty() && rows.back().end == begin) {
      rows.back().end = end;
    } else {
      rows.push_back({begin, end});
    }
  }
  return rows;
}

std::vector<BlockRange> ShardPlan::OwnedBlocks(int64_t sequence_tokens, int rank) const {
  return Runs(BlocksFor(sequence_tokens), [&](int64_t block) { return Owner(block) == rank; });
}

std::vector<BlockRange> ShardPlan::ComputedBlocks(int rank) const {
  return Runs(BlocksFor(tokens_), [&](int64_t block) { return Computer(block) == rank; });
}

int64_t ShardPlan::OwnedBlockCount(int64_t sequence_tokens, int rank) const {
  int64_t count = 0;
  for (int64_t block = 0; block < BlocksFor(sequence_tokens); ++block) count += Owner(block) == rank ? 1 : 0;
  return count;
}

}  // namespace rondo
