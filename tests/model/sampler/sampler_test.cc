// The sampler: filters against hand-computed distributions, ties, errors, and draws against their distribution.
#include "model/sampler/sampler.h"

#include <cmath>
#include <limits>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rondo {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Logits whose softmax is p.
std::vector<float> LogitsOf(const std::vector<double>& p) {
  std::vector<float> logits;
  for (double x : p) logits.push_back(static_cast<float>(std::log(x)));
  return logits;
}

void ExpectCandidates(const SamplingParams& params, const std::vector<float>& logits,
                      const std::vector<std::pair<int32_t, double>>& expected) {
  const auto candidates = Candidates(params, logits);
  ASSERT_TRUE(candidates.ok()) << candidates.status();
  ASSERT_EQ(candidates->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ((*candidates)[i].id, expected[i].first) << i;
    EXPECT_NEAR((*candidates)[i].probability, expected[i].second, 1e-6) << i;
  }
}

const std::vector<double> kTenths = {0.1, 0.2, 0.3, 0.4};

TEST(Candidates, TopKKeepsTheLikeliest) {
  ExpectCandidates({.temperature = 1, .top_k = 1}, LogitsOf(kTenths), {{3, 1.0}});
  ExpectCandidates({.temperature = 1, .top_k = 3}, LogitsOf(kTenths), {{3, 4 / 9.0}, {2, 3 / 9.0}, {1, 2 / 9.0}});
  ExpectCandidates({.temperature = 1, .top_k = 9}, LogitsOf(kTenths), {{3, .4}, {2, .3}, {1, .2}, {0, .1}});
}

TEST(Candidates, TopPKeepsTheShortestPrefixThatReachesIt) {
  ExpectCandidates({.temperature = 1, .top_p = 1e-9f}, LogitsOf(kTenths), {{3, 1.0}});
  ExpectCandidates({.temperature = 1, .top_p = .6999f}, LogitsOf(kTenths), {{3, 4 / 7.0}, {2, 3 / 7.0}});
  ExpectCandidates({.temperature = 1, .top_p = .8f}, LogitsOf(kTenths), {{3, 4 / 9.0}, {2, 3 / 9.0}, {1, 2 / 9.0}});
}

TEST(Candidates, MinPIsRelativeToTheLikeliest) {
  ExpectCandidates({.temperature = 1, .min_p = .26f}, LogitsOf(kTenths), {{3, 4 / 9.0}, {2, 3 / 9.0}, {1, 2 / 9.0}});
  ExpectCandidates({.temperature = 1, .min_p = .74f}, LogitsOf(kTenths), {{3, 4 / 7.0}, {2, 3 / 7.0}});
  ExpectCandidates({.temperature = 1, .min_p = 1}, LogitsOf(kTenths), {{3, 1.0}});
}

TEST(Candidates, FiltersComposeInTheDocumentedOrder) {
  // top-k 3 renormalises to 4/9, 3/9, 2/9; top-p .75 needs the first two (7/9). Over all four it would need three.
  ExpectCandidates({.temperature = 1, .top_k = 3, .top_p = .75f}, LogitsOf(kTenths), {{3, 4 / 7.0}, {2, 3 / 7.0}});
  // Temperature 1/2 squares what is left: .16 and .09. Before top-p it would have left one candidate of .6 (.53).
  ExpectCandidates({.temperature = .5f, .top_p = .5f}, LogitsOf(kTenths), {{3, 16 / 25.0}, {2, 9 / 25.0}});
}

TEST(Candidates, EqualProbabilitiesStandInOrderOfId) {
  ExpectCandidates({.temperature = 1, .top_k = 2}, {0, 1, 1, 1}, {{1, .5}, {2, .5}});
}

TEST(Candidates, ImpossibleTokensAreLeftOut) {
  ExpectCandidates({.temperature = 1}, {-kInfinity, 2, -kInfinity, 2}, {{1, .5}, {3, .5}});
}

TEST(Sample, GreedyTakesTheLowestIdOfTheLargestLogit) {
  EXPECT_EQ(*Sample({}, 0, 0, {-3, 5, 5, 1}), 1);
  EXPECT_EQ(*Sample({}, 0, 0, {-kInfinity, -7}), 1);
  EXPECT_EQ(*Sample({.temperature = 1e-30f}, 0, 0, {-3, 5, 5, 1}), 1);
}

TEST(Sample, NamesTheTokenOfAnOverflow) {
  for (float temperature : {0.0f, 1.0f}) {
    for (float bad : {NAN, kInfinity}) {
      const auto drawn = Sample({.temperature = temperature}, 0, 0, {1, 2, bad, 4});
      EXPECT_EQ(drawn.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(drawn.status().message()), testing::HasSubstr("token 2"));
    }
    EXPECT_FALSE(Sample({.temperature = temperature}, 0, 0, {-kInfinity, -kInfinity}).ok());
  }
}

TEST(Sample, DrawsFollowTheDistribution) {
  const std::vector<float> logits = LogitsOf(kTenths);
  constexpr int kDraws = 40000;
  std::vector<int> seen(4);
  for (int step = 0; step < kDraws; ++step) ++seen[*Sample({.temperature = 1, .seed = 11}, 3, step, logits)];
  // Chi squared with three degrees of freedom: 16.3 is passed once in a thousand; the draws are fixed.
  double chi = 0;
  for (int i = 0; i < 4; ++i) chi += std::pow(seen[i] - kDraws * kTenths[i], 2) / (kDraws * kTenths[i]);
  EXPECT_LT(chi, 16.3);
}

TEST(Sample, EveryPartOfTheKeyMatters) {
  const std::vector<float> logits(1 << 16, 0.0f);
  std::set<int32_t> drawn;
  const uint64_t large = uint64_t{1} << 40;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, large}) {
    for (uint64_t request : {uint64_t{0}, uint64_t{1}, large}) {
      for (uint64_t step : {uint64_t{0}, uint64_t{1}, large}) {
        const SamplingParams params{.temperature = 1, .seed = seed};
        const int32_t id = *Sample(params, request, step, logits);
        EXPECT_EQ(*Sample(params, request, step, logits), id);
        drawn.insert(id);
      }
    }
  }
  EXPECT_GE(drawn.size(), 26u);  // 27 draws of 65536: one collision at most
}

TEST(Validate, NamesTheParameterOutOfRange) {
  EXPECT_TRUE(Validate({}).ok());
  EXPECT_TRUE(Validate({.temperature = 100, .top_k = 1 << 30, .top_p = 1e-9f, .min_p = 1}).ok());
  const auto expect = [](const SamplingParams& params, const char* name) {
    EXPECT_EQ(Validate(params).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Validate(params).message()), testing::HasSubstr(name));
  };
  for (float bad : {-0.1f, 101.0f, kInfinity, NAN}) expect({.temperature = bad}, "temperature");
  for (float bad : {0.0f, -1.0f, 1.01f, NAN}) expect({.top_p = bad}, "top_p");
  for (float bad : {-0.1f, 1.01f, NAN}) expect({.min_p = bad}, "min_p");
  expect({.top_k = -1}, "top_k");
}

}  // namespace
}  // namespace rondo
