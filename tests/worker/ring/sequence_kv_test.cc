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
    const std::byte* previous = nullptr;
    for (int64_t b = 0; b < BlocksFor(total); ++b) {
      const std::byte* block = kv->Block(1, b);
      const bool computes = b < BlocksFor(prompt) && plan.Computer(b) == rank;
      ASSERT_EQ(block != nullptr, plan.Owner(b) == rank || computes) << b;
      if (plan.Owner(b) != rank) continue;
      if (previous != nullptr) {
        EXPECT_EQ(block - previous, static_cast<int64_t>(KvBlockBytes(kShape))) << "in order, without gaps";
      }
      previous = block;
      const int64_t tokens = std::min<int64_t>(kBlockTokens, total - b * kBlockTokens);
      rows_kept += tokens;
      const auto* k = reinterpret_cast<const float*>(block);
      const auto* v = reinterpret_cast<const float*>(block + KvBlockValueOffset(kShape));
      for (int64_t row = 0; row < tokens; ++row) {
        for (int head = 0; head < 2; ++head) {
          const int64_t at = (head * kBlockTokens + row) * 8 + 3;
          ASSERT_EQ(k[at], KeyAt(b * kBlockTokens + row, head, 3));
          ASSERT_EQ(v[at], -KeyAt(b * kBlockTokens + row, head, 3));
        }
      }
    }
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
