#include <gtest/gtest.h>

#include "cli/bench/serve_load.h"

namespace rondo::cli {
namespace {

TEST(Percentile, IsTheNearestRank) {
  EXPECT_EQ(Percentile({}, 50), 0);
  EXPECT_EQ(Percentile({7}, 99), 7);
  EXPECT_EQ(Percentile({10, 1, 9, 2, 8, 3, 7, 4, 6, 5}, 50), 5);
  EXPECT_EQ(Percentile({10, 1, 9, 2, 8, 3, 7, 4, 6, 5}, 90), 9);
  EXPECT_EQ(Percentile({10, 1, 9, 2, 8, 3, 7, 4, 6, 5}, 99), 10);
}

TEST(RequestTimes, TimePerTokenLeavesTheFirstOut) {
  EXPECT_DOUBLE_EQ((RequestTimes{1, 0.5, 3.5, 5}).TpotS(), 0.5);  // 2 s for the 4 after the first
  EXPECT_EQ((RequestTimes{1, 0.5, 1.5, 1}).TpotS(), 0);
}

TEST(LoadSummary, CountsFromTheFirstRequestToTheLastAnswer) {
  LoadResult result;
  result.requests = {{1, 0.5, 3.5, 5}, {2, 1.0, 6.0, 4}};
  result.failures = {"request 3: gone"};
  const LoadSummary s = Summarise(result, 100);
  EXPECT_EQ(s.answered, 2);
  EXPECT_EQ(s.failed, 1);
  EXPECT_DOUBLE_EQ(s.seconds, 5);
  EXPECT_DOUBLE_EQ(s.requests_per_s, 0.4);
  EXPECT_DOUBLE_EQ(s.prompt_tokens_per_s, 40);
  EXPECT_DOUBLE_EQ(s.answer_tokens_per_s, 1.8);
  EXPECT_DOUBLE_EQ(s.ttft_p50_s, 0.5);
  EXPECT_DOUBLE_EQ(s.ttft_p99_s, 1.0);
  EXPECT_DOUBLE_EQ(s.tpot_p50_s, 0.5);
  EXPECT_DOUBLE_EQ(s.tpot_p90_s, 1.0);
}

TEST(LoadSummary, OfNothingIsZero) { EXPECT_EQ(Summarise({}, 100).requests_per_s, 0); }

}  // namespace
}  // namespace rondo::cli
