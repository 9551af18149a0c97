// A job's memory on each rank, against the ranks' own counting of their blocks.
#include "coordinator/core/reservation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "rondo/canonical.h"
#include "rondo/plan.h"

namespace rondo::coordinator {
namespace {

TEST(KvBytesByRank, IsWhatEveryRankCountsForItself) {
  GroupInfo group;
  group.kv_bytes_per_token = 3;
  for (const int64_t chunk : {0, 512, 1000, -1}) {
    group.leaf_level = chunk < 0 ? 4 : 0;
    group.prefill_chunk = std::max<int64_t>(chunk, 0);
    for (const uint32_t ring : {1u, 2u, 3u, 7u}) {
      for (const int64_t prompt : {1, 256, 257, 5000, 40000}) {
        for (const uint32_t answer : {0u, 1u, 300u, 4 * 256u * 7u, 300007u}) {
          JobSpec spec;
          spec.prompt_tokens = prompt;
          spec.max_tokens = answer;
          const std::vector<uint64_t> bytes = KvBytesByRank(spec, group, ring);
          ASSERT_EQ(bytes.size(), ring);
          const ShardPlan plan =
              ShardPlan::Zigzag(prompt, static_cast<int>(ring), group.prefill_chunk, group.leaf_level);
          for (uint32_t rank = 0; rank < ring; ++rank) {
            EXPECT_EQ(bytes[rank], 3u * kBlockTokens * plan.OwnedBlockCount(prompt + answer, static_cast<int>(rank)))
                << "chunk " << chunk << ", rank " << rank << " of " << ring << ", " << prompt << " + " << answer;
          }
        }
      }
    }
  }
}

// More than any rank will ever hold, and still no overflow: 2^31 tokens of 1 MiB are 2^51 bytes.
TEST(KvBytesByRank, ALongAnswerIsSpreadEvenly) {
  GroupInfo group;
  group.kv_bytes_per_token = 1 << 20;
  JobSpec spec;
  spec.prompt_tokens = 1;
  spec.max_tokens = (1u << 31) - 1;
  const std::vector<uint64_t> bytes = KvBytesByRank(spec, group, 2);
  EXPECT_EQ(bytes[0] + bytes[1], uint64_t{1} << 51);
  EXPECT_LE(std::max(bytes[0], bytes[1]) - std::min(bytes[0], bytes[1]), uint64_t{8} * kBlockTokens << 20);
}

}  // namespace
}  // namespace rondo::coordinator
