// The plan's formulas against numbers worked out by hand and against a published run.
#include "model/cost/cost_model.h"

#include <gtest/gtest.h>

namespace rondo {
namespace {

// Two layers, 2 query heads on 1 KV head of 4, width 8, MLP 16, vocabulary 10.
CostShape Small() {
  CostShape s{2, 8, 16, 2, 1, 4, 10, 1000, KvType::kF32};
  return s;
}

// Everything at 1000 operations or bytes a second, so that seconds are counts / 1000.
RankRates Slow() {
  RankRates r;
  r.dense_flops = r.attention_flops = r.kv_read_bytes_per_s = r.link_bytes_per_s = 1000;
  r.decode_dense_s = 0.5;
  return r;
}

TEST(CostModel, CountsParametersAndBytes) {
  // A layer: q and o 8 x 8, k and v 8 x 4, three matrices 8 x 16.
  EXPECT_EQ(Small().LayerParameters(), 2 * (2 * 64 + 2 * 32 + 3 * 128));
  EXPECT_EQ(Small().OutputParameters(), 80);
  EXPECT_EQ(Small().KvBytesPerToken(), 2u * 2 * 1 * 4 * 4);
}

TEST(CostModel, OneRank) {
  const CostPlan plan = PlanCost(Small(), {.prompt_tokens = 512, .answer_tokens = 0, .world = 1}, Slow());
  EXPECT_DOUBLE_EQ(plan.prefill_dense_s, 2 * 1152.0 * 512 / 1000);
  // 512 * 513 / 2 visible pairs, 4 * 8 operations a pair and layer.
  EXPECT_DOUBLE_EQ(plan.prefill_attention_s, 2 * 4.0 * 8 * (512 * 513 / 2) / 1000);
  EXPECT_EQ(plan.prefill_exposed_s, 0);
  EXPECT_DOUBLE_EQ(plan.decode_attention_s, 512 * 64 / 1000.0);
  EXPECT_EQ(plan.kv_bytes, 512u * 64);
  EXPECT_EQ(plan.buffer_bytes, 0u);
  EXPECT_EQ(plan.rank_bytes, plan.weight_bytes + plan.kv_bytes + plan.activation_bytes + plan.process_bytes);
}

TEST(CostModel, TwoRanksShareTheWorkAndExposeWhatComputeDoesNotHide) {
  RankRates rates = Slow();
  const CostRequest request{.prompt_tokens = 512, .answer_tokens = 0, .world = 2};
  // A layer's KV of one rank: 256 tokens of 32 bytes; its step computes a quarter of the layer's operations.
  const double step_s = 4.0 * 8 * (512 * 513 / 2) / 2 / 2 / 1000, transfer_s = 256 * 32 / 1000.0;
  ASSERT_GT(step_s, transfer_s);
  EXPECT_EQ(PlanCost(Small(), request, rates).prefill_exposed_s, 0);
  rates.link_bytes_per_s = 1;
  EXPECT_NEAR(PlanCost(Small(), request, rates).prefill_exposed_s, 2 * (256 * 32 - step_s), 1e-6);
}

TEST(CostModel, APieceIsAWholeBlock) {
  // Three blocks over two ranks: the busier one has two of them.
  const CostPlan one = PlanCost(Small(), {.prompt_tokens = 768, .world = 1}, Slow());
  const CostPlan two = PlanCost(Small(), {.prompt_tokens = 768, .world = 2}, Slow());
  EXPECT_NEAR(two.prefill_dense_s, one.prefill_dense_s * 2 / 3, 1e-9);
}

TEST(CostModel, TheLargestPromptIsTheLastThatFits) {
  RankRates rates = Slow();
  rates.memory_bytes = 42 << 20;  // of which the process has 41
  CostRequest request{.prompt_tokens = 256, .answer_tokens = 0, .world = 2};
  const CostPlan plan = PlanCost(Small(), request, rates);
  EXPECT_TRUE(plan.fits);
  request.prompt_tokens = plan.largest_prompt;
  EXPECT_TRUE(PlanCost(Small(), request, rates).fits);
  ++request.prompt_tokens;
  EXPECT_FALSE(PlanCost(Small(), request, rates).fits);
  rates.memory_bytes = 999;
  EXPECT_EQ(PlanCost(Small(), request, rates).largest_prompt, 0);
}

// Yang et al., arXiv 2411.01783: Llama 3 405B, one million tokens on 128 H100: 77 s, at 502 TFLOP/s a GPU, with KV
// in bf16 and links of 400 Gbit/s that compute hides.
TEST(CostModel, GivesThePublishedTimeOfAMillionTokens) {
  const CostShape llama{126, 16384, 53248, 128, 8, 128, 128256, 405'000'000'000, KvType::kBf16};
  RankRates rates;
  rates.dense_flops = rates.attention_flops = 502e12;
  rates.link_bytes_per_s = 50e9;
  const CostPlan plan = PlanCost(llama, {.prompt_tokens = 1'000'000, .answer_tokens = 1, .world = 128}, rates);
  EXPECT_NEAR(plan.ttft_s, 77, 77 * 0.02);
  EXPECT_EQ(plan.prefill_exposed_s, 0);
  EXPECT_EQ(plan.tpot_s, 0) << "nothing is known of its memory";
  // 502e12 * 2 * 8 / (128 * 50e9)
  EXPECT_NEAR(plan.hidden_from_tokens, 1255, 1);
}

}  // namespace
}  // namespace rondo
