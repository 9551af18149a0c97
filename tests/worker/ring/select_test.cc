// The selector's times by hand, and the nodes a holder of blocks gives away.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/registry.h"
#include "rondo/ring.h"
#include "tests/worker/ring/attend_harness.h"
#include "worker/ring/calibrate.h"
#include "worker/ring/node_plan.h"

namespace rondo::testing {
namespace {

RingProblem Full(int64_t q_tokens, int64_t kv_tokens) {
  RingProblem p;
  p.shape = {.q_heads = 2, .kv_heads = 1, .head_dim = 4, .scale = 0.5f};
  p.mask.causal = false;
  p.q_tokens = q_tokens;
  p.kv_tokens = kv_tokens;
  return p;
}

// 512 on 512, two ranks of 256 rows and one block each. A block is 2 * 256 * 4 floats = 8192 bytes, 256 queries of two
// heads of 4 are 8192 too, and their one node 256 * 2 * (4 + 2) floats = 12288. 256 rows on 256 keys are
// 4 * 4 * 2 * 65536 = 2097152 FLOPs. At 1e9 FLOP/s and 1e6 bytes/s the first step waits for the wire, the second does
// not, and with pass-Q 12288 bytes come home, 3072 floats at 24 FLOPs.
TEST(SelectTest, TimesByHand) {
  const RingRates rates{.flops = 1e9, .bytes_per_s = 1e6};
  const RingChoice choice = ChooseStrategy(Full(512, 512), 2, rates);
  EXPECT_DOUBLE_EQ(choice.pass_kv_us, 8192 + 2097.152);
  EXPECT_DOUBLE_EQ(choice.pass_q_us, 8192 + 2097.152 + 12288 + 73.728);
  EXPECT_EQ(choice.strategy, RingStrategy::kPassKv);
}

// Two queries on 512 keys: rank 0 has both. Keys: 8192 bytes to it. Queries: 64 bytes, and a node of 96 back.
TEST(SelectTest, FewQueriesOnManyKeysGoToTheKeys) {
  const RingRates rates{.flops = 1e9, .bytes_per_s = 1e6};
  const RingChoice choice = ChooseStrategy(Full(2, 512), 2, rates);
  EXPECT_DOUBLE_EQ(choice.pass_kv_us, 8192 + 16.384);
  EXPECT_DOUBLE_EQ(choice.pass_q_us, 64 + 16.384 + 96 + 0.576);
  EXPECT_EQ(choice.strategy, RingStrategy::kPassQ);
  EXPECT_NE(choice.reason.find("pass-kv 8208 us and pass-q 177 us"), std::string::npos) << choice.reason;
}

// Compute hides either transfer: the times differ by what the nodes cost, under 5 %, and what is sent decides.
// 2 queries: 64 and 96 bytes against 8192. 512: 8192 and 12288 against 8192.
TEST(SelectTest, CloseCallsGoToTheOneThatSendsLess) {
  const RingRates rates{.flops = 1e6, .bytes_per_s = 1e9};
  const RingChoice few = ChooseStrategy(Full(2, 512), 2, rates);
  EXPECT_GT(few.pass_q_us, few.pass_kv_us);
  EXPECT_LT(few.pass_q_us, 1.05 * few.pass_kv_us);
  EXPECT_EQ(few.strategy, RingStrategy::kPassQ);
  EXPECT_EQ(ChooseStrategy(Full(512, 512), 2, rates).strategy, RingStrategy::kPassKv);
}

TEST(SelectTest, WithoutRatesOrPeersItIsPassKv) {
  EXPECT_EQ(ChooseStrategy(Full(2, 512), 2, {}).strategy, RingStrategy::kPassKv);
  EXPECT_EQ(ChooseStrategy(Full(2, 512), 1, {1e9, 1e6}).strategy, RingStrategy::kPassKv);
}

TEST(SelectTest, EveryRankMeasuresTheSameRates) {
  RankThreads ranks(3);
  std::vector<RingRates> rates(3);
  ranks.Run([&](Transport& transport, ThreadPool& threads) {
    const AttentionShape shape{.q_heads = 9, .kv_heads = 3, .head_dim = 64, .scale = 0.125f};
    rates[transport.rank()] = MeasureRates(*SelectKernels("").value().attention, shape, transport, threads).value();
  });
  for (const RingRates& of : rates) {
    EXPECT_GT(of.flops, 0);
    EXPECT_GT(of.bytes_per_s, 0);
    EXPECT_EQ(of.flops, rates[0].flops);
    EXPECT_EQ(of.bytes_per_s, rates[0].bytes_per_s);
  }
}

// Blocks 4 and 5 of 6: the tree's right half has no others, so they are one node of level 2. With 7 visible they are
// the node of level 1. Blocks 1, 2 and 3 are two nodes; if 1..3 is all that is seen, they are the root.
TEST(NodePlanTest, InvisibleBlocksBelongToAnybody) {
  const std::vector<BlockRange> end = {{4, 6}};
  EXPECT_EQ(OwnNodes(end, {0, 6}, 0), (std::vector<NodeId>{{2, 1}}));
  EXPECT_EQ(OwnNodes(end, {0, 7}, 0), (std::vector<NodeId>{{1, 2}}));
  const std::vector<BlockRange> middle = {{1, 4}};
  EXPECT_EQ(OwnNodes(middle, {0, 4}, 0), (std::vector<NodeId>{{0, 1}, {1, 1}}));
  EXPECT_EQ(OwnNodes(middle, {1, 4}, 0), (std::vector<NodeId>{{2, 0}}));
  EXPECT_EQ(OwnNodes(middle, {5, 9}, 0), (std::vector<NodeId>{}));
  EXPECT_EQ(OwnNodes(middle, {3, 3}, 0), (std::vector<NodeId>{}));
  EXPECT_EQ(OwnNodes(std::vector<BlockRange>{{0, 4}}, {1, 3}, 2), (std::vector<NodeId>{{2, 0}}))
      << "a leaf, though half of it is seen";
  const std::vector<BlockRange> apart = {{0, 2}, {6, 8}};
  EXPECT_EQ(OwnNodes(apart, {0, 8}, 0), (std::vector<NodeId>{{1, 0}, {1, 3}}));
}

}  // namespace
}  // namespace rondo::testing
