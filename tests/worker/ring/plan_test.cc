// The shard plan is a partition of the positions for any length, rank count and chunk, and spreads the work.
#include "rondo/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rondo {
namespace {

// Every position of every chunk belongs to exactly one rank, and to the rank that computes its block.
void ExpectPartition(int64_t tokens, int world, int64_t chunk, int leaf_level = 0) {
  SCOPED_TRACE(testing::Message() << tokens << " tokens, " << world << " ranks, chunk " << chunk << ", leaf level "
                                  << leaf_level);
  const ShardPlan plan = ShardPlan::Zigzag(tokens, world, chunk, leaf_level);
  std::vector<int> seen(tokens, 0);
  int64_t next = 0;
  for (int64_t c = 0; c < plan.chunk_count(); ++c) {
    const PositionRun range = plan.Chunk(c);
    ASSERT_EQ(range.begin, next);
    ASSERT_GT(range.end, range.begin);
    ASSERT_LE(range.size(), chunk == 0 ? tokens : chunk);
    next = range.end;
    for (int rank = 0; rank < world; ++rank) {
      int64_t last_end = -1;
      for (const PositionRun& run : plan.Rows(c, rank)) {
        ASSERT_GT(run.size(), 0);
        ASSERT_GT(run.begin, last_end) << "runs are ascending and maximal";
        last_end = run.end;
        ASSERT_GE(run.begin, range.begin);
        ASSERT_LE(run.end, range.end);
        for (int64_t p = run.begin; p < run.end; ++p) {
          ++seen[p];
          ASSERT_EQ(plan.Computer(BlockOf(p)), rank);
        }
      }
    }
  }
  ASSERT_EQ(next, tokens);
  ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), tokens);
}

void ExpectOwnersPartition(int64_t tokens, int world, int64_t chunk) {
  const ShardPlan plan = ShardPlan::Zigzag(tokens, world, chunk);
  const int64_t sequence = tokens + 1500;  // generated tokens too
  std::vector<int> owners(BlocksFor(sequence), -1);
  for (int rank = 0; rank < world; ++rank) {
    int64_t count = 0;
    int64_t last_end = -1;
    for (const BlockRange& run : plan.OwnedBlocks(sequence, rank)) {
      ASSERT_GT(run.begin, last_end);
      last_end = run.end;
      count += run.size();
      for (int64_t b = run.begin; b < run.end; ++b) {
        ASSERT_EQ(owners[b], -1);
        owners[b] = rank;
        ASSERT_EQ(plan.Owner(b), rank);
      }
    }
    ASSERT_EQ(count, plan.OwnedBlockCount(sequence, rank));
  }
  ASSERT_EQ(std::count(owners.begin(), owners.end(), -1), 0);
}

TEST(PlanTest, IsAPartitionForEveryLengthWorldAndChunk) {
  for (int world = 1; world <= 8; ++world) {
    for (const int64_t chunk : {0, 1, 5, 64, 255, 256, 257, 300, 1000, 4096}) {
      const int64_t step = chunk == 0 || chunk >= 256 ? 1 : 37;
      for (int64_t tokens = 0; tokens <= 2100; tokens += tokens < 45 ? 1 : step) {
        ExpectPartition(tokens, world, chunk);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(PlanTest, LeavesAreNeverDivided) {
  for (int world = 1; world <= 5; ++world) {
    for (const int64_t chunk : {0, 300, 5000}) {
      for (const int64_t tokens : {0, 1, 4095, 4096, 4097, 20000}) {
        ExpectPartition(tokens, world, chunk, 4);
        if (HasFatalFailure()) return;
        const ShardPlan plan = ShardPlan::Zigzag(tokens, world, chunk, 4);
        for (int64_t block = 0; block < BlocksFor(tokens + 30000); ++block) {
          const int64_t leaf = block / 16 * 16;
          ASSERT_EQ(plan.Owner(block), plan.Owner(leaf)) << block;
          if (block < BlocksFor(tokens)) {
            ASSERT_EQ(plan.Computer(block), plan.Computer(leaf)) << block;
          }
        }
      }
    }
  }
  EXPECT_NE(ShardPlan::Zigzag(8192, 2, 0, 4).Owner(0), ShardPlan::Zigzag(8192, 2, 0, 4).Owner(16));
}

TEST(PlanTest, EveryBlockHasOneOwnerAlsoPastThePrompt) {
  for (int world = 1; world <= 8; ++world) {
    for (const int64_t chunk : {0, 64, 256, 1000}) {
      for (int64_t tokens = 0; tokens <= 9000; tokens += 111) {
        ExpectOwnersPartition(tokens, world, chunk);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Seven tokens on two ranks lost three of them in engines that divide by 2 * world.
TEST(PlanTest, SevenTokensOnTwoRanks) {
  const ShardPlan plan = ShardPlan::Zigzag(7, 2, 0);
  const std::vector<PositionRun> rows = plan.Rows(0, 0);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].begin, 0);
  EXPECT_EQ(rows[0].end, 7);
  EXPECT_TRUE(plan.Rows(0, 1).empty());
}

// 16 blocks on 4 ranks are 8 pieces of 2: rank 0 has the first and the last.
TEST(PlanTest, ZigzagByHand) {
  const ShardPlan plan = ShardPlan::Zigzag(16 * kBlockTokens, 4, 0);
  const std::vector<int> expected = {0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 2, 2, 1, 1, 0, 0};
  for (int64_t b = 0; b < 16; ++b) EXPECT_EQ(plan.Computer(b), expected[b]) << b;
  for (int64_t b = 0; b < 16; ++b) EXPECT_EQ(plan.Owner(b), b / 4) << "kept in contiguous runs";
}

// Blocks differ by at most one; the causal work (block b attends b + 1 blocks) by at most two late blocks.
TEST(PlanTest, BalancesBlocksAndCausalWork) {
  for (int world = 2; world <= 8; ++world) {
    for (int64_t blocks = 1; blocks <= 200; ++blocks) {
      const ShardPlan plan = ShardPlan::Zigzag(blocks * kBlockTokens, world, 0);
      std::vector<int64_t> count(world, 0);
      std::vector<int64_t> work(world, 0);
      for (int64_t b = 0; b < blocks; ++b) {
        ++count[plan.Computer(b)];
        work[plan.Computer(b)] += b + 1;
      }
      const auto [least, most] = std::minmax_element(count.begin(), count.end());
      ASSERT_LE(*most - *least, 1) << blocks << " blocks, " << world << " ranks";
      const auto [idle, busy] = std::minmax_element(work.begin(), work.end());
      ASSERT_LE(*busy - *idle, 2 * blocks) << blocks << " blocks, " << world << " ranks";
    }
  }
}

// A border of 400 blocks on 4 ranks may move by 3, a share being 100.
TEST(PlanTest, OwnersAreContiguousAndAlignedWithinTheirSlack) {
  const ShardPlan plan = ShardPlan::Zigzag(400 * kBlockTokens, 4, 0);
  int64_t border = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<BlockRange> owned = plan.OwnedBlocks(plan.tokens(), rank);
    ASSERT_EQ(owned.size(), 1u);
    EXPECT_EQ(owned[0].begin, border);
    EXPECT_NEAR(owned[0].size(), 100, 6);
    border = owned[0].end;
  }
  EXPECT_EQ(border, 400);
  // With several chunks who computes a block keeps it.
  const ShardPlan chunks = ShardPlan::Zigzag(400 * kBlockTokens, 4, 100 * kBlockTokens);
  for (int64_t b = 0; b < 400; ++b) ASSERT_EQ(chunks.Owner(b), chunks.Computer(b));
}

// Chunks of one block each would all fall to rank 0 without the rotation.
TEST(PlanTest, ShortChunksGoRoundTheRanks) {
  const ShardPlan plan = ShardPlan::Zigzag(64 * kBlockTokens, 4, kBlockTokens);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(plan.OwnedBlockCount(plan.tokens(), rank), 16);
}

TEST(PlanTest, EmptyPromptHasNoChunk) {
  for (const int64_t chunk : {0, 64}) {
    const ShardPlan plan = ShardPlan::Zigzag(0, 3, chunk);
    EXPECT_EQ(plan.chunk_count(), 0);
    EXPECT_EQ(plan.OwnedBlockCount(0, 0), 0);
    EXPECT_EQ(plan.Owner(0), 0);
    EXPECT_EQ(plan.Owner(3), 0);
    EXPECT_EQ(plan.Owner(4), 1);
    EXPECT_EQ(plan.Owner(12), 0);
  }
}

}  // namespace
}  // namespace rondo
