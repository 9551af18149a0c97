// A rank keeps its own rows, in order, and nothing of the others.
#include "worker/ring/sequence_kv.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace rondo {
namespace {

constexpr AttentionShape kShape{.q_heads = 4, .kv_heads = 2, .head_dim = 8, .kv_type = KvType::kF32, .scale = 1};

float KeyAt(int64_t position, int head, int i) { return static_cast<float>(position * 16 + head * 8 + i); }

// Every owned row is found where the block layout says, whatever pieces the rows came in.
void ExpectRowsKept(int64_t prompt, int64_t total, int world, int64_t chunk, int64_t piece) {
  SCOPED_TRACE(testing::Message() << prompt << "/" << total << " on " << world << " chunk " << chunk);
  const ShardPlan plan = ShardPlan::Zigzag(prompt, world, chunk);
  int64_t rows_kept = 0;
  for (int rank = 0; rank < world; ++rank) {
    absl::StatusOr<SequenceKv> kv = SequenceKv::Create(kShape, 2, plan, rank, total);
    ASSERT_TRUE(kv.ok()) << kv.status();
    EXPECT_EQ(kv->reserved_bytes(), SequenceKv::KvBytes(kShape, 2, plan, rank, total));
    for (int64_t begin = 0; begin < total; begin += piece) {
      const PositionRun run{begin, std::min(total, begin + piece)};
      std::vector<float> k;
      for (int64_t p = run.begin; p < run.end; ++p) {
        for (int head = 0; head < 2; ++head) {
          for (int i = 0; i < 8; ++i) k.push_back(KeyAt(p, head, i));
        }
      }
      std::vector<float> v = k;
      for (float& x : v) x = -x;
      kv->Store(1, {&run, 1}, k.data(), v.data());
    }
    const std::vector<BlockRange> owned = plan.OwnedBlocks(total, rank);
    const absl::Span<const std::byte> bytes = kv->Owned(1, total);
    ASSERT_EQ(bytes.size(), plan.OwnedBlockCount(total, rank) * KvBlockBytes(kShape));
    std::vector<std::vector<KvBlock>> runs;
    ViewBlocks(owned, total, bytes.data(), KvBlockBytes(kShape), runs);
    for (const std::vector<KvBlock>& run : runs) {
      for (const KvBlock& block : run) {
        EXPECT_EQ(plan.Owner(block.index), rank);
        EXPECT_EQ(block.tokens, std::min<int64_t>(kBlockTokens, total - block.index * kBlockTokens));
        rows_kept += block.tokens;
        const auto* k = reinterpret_cast<const float*>(block.data);
        const auto* v = reinterpret_cast<const float*>(block.data + KvBlockValueOffset(kShape));
        for (int64_t row = 0; row < block.tokens; ++row) {
          for (int head = 0; head < 2; ++head) {
            const int64_t at = (head * kBlockTokens + row) * 8 + 3;
            ASSERT_EQ(k[at], KeyAt(block.index * kBlockTokens + row, head, 3));
            ASSERT_EQ(v[at], -KeyAt(block.index * kBlockTokens + row, head, 3));
          }
        }
      }
    }
    // A shorter sequence sees a prefix of the same memory.
    EXPECT_EQ(kv->Owned(1, prompt).size(), plan.OwnedBlockCount(prompt, rank) * KvBlockBytes(kShape));
  }
  EXPECT_EQ(rows_kept, total);
}

TEST(SequenceKvTest, KeepsOwnedRowsOnly) {
  ExpectRowsKept(700, 1100, 3, 0, 1100);
  ExpectRowsKept(700, 1100, 3, 300, 77);
  ExpectRowsKept(2000, 2001, 4, 512, 300);
  ExpectRowsKept(0, 600, 2, 0, 1);
  ExpectRowsKept(5, 5, 8, 0, 5);
}

TEST(SequenceKvTest, RefusesWhatNoMemoryHolds) {
  const ShardPlan plan = ShardPlan::Zigzag(10, 1, 0);
  EXPECT_EQ(SequenceKv::Create(kShape, 1 << 30, plan, 0, int64_t{1} << 28).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace rondo
