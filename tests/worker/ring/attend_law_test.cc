// The law over random attention problems: any number of ranks, any strategy, the bits of one rank; and the numbers of
// plain float64 loops. RONDO_TEST_CONFIGS=N tries N problems instead of the usual 2,000.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "kernels/registry.h"
#include "tests/worker/ring/attend_harness.h"
#include "tests/worker/ring/plain_kernels.h"

namespace rondo::testing {
namespace {

constexpr int64_t kMaxWorld = 8;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  template <typename T>
  T Of(std::initializer_list<T> values) {
    return values.begin()[Below(static_cast<int64_t>(values.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

int64_t Length(Random& random) {
  switch (random.Below(4)) {
    case 0:
      return random.Below(41);
    case 1:
      return random.Of<int64_t>({63, 64, 65, 127, 129, 255, 256, 257, 511, 512, 513, 767, 1024, 1025});
    default:
      return random.Below(2600);
  }
}

void Choose(AttendCase& c, uint64_t seed) {
  Random random(seed);
  RingProblem& p = c.problem;
  const auto [q_heads, kv_heads] =
      random.Of<std::pair<int, int>>({{1, 1}, {1, 1}, {2, 1}, {2, 2}, {3, 3}, {4, 1}, {4, 2}, {9, 3}, {8, 8}});
  const int head_dim = random.OneIn(4) ? random.Of({1, 63, 64, 72, 80, 96, 128, 256}) : random.Of({2, 4, 8, 16});
  p.shape = {.q_heads = q_heads,
             .kv_heads = kv_heads,
             .head_dim = head_dim,
             .kv_type = random.OneIn(2) ? KvType::kF32 : KvType::kBf16,
             .scale = 1 / std::sqrt(static_cast<float>(head_dim))};
  // Sizes within a budget of multiplications, so that thousands of problems fit a minute.
  do {
    p.kv_tokens = Length(random);
    p.q_tokens = random.OneIn(2) ? p.kv_tokens : Length(random);
  } while (p.kv_tokens * p.q_tokens * q_heads * (head_dim + 8) > 12'000'000);
  p.mask.causal = !random.OneIn(3);
  if (random.OneIn(3)) p.mask.window = random.OneIn(2) ? 1 + random.Below(40) : 1 + random.Below(1 + p.kv_tokens);
  if (random.OneIn(4)) {
    c.starts = {0, p.kv_tokens};
    for (int64_t i = random.Below(6); i > 0; --i) c.starts.push_back(random.Below(p.kv_tokens + 1));
    std::sort(c.starts.begin(), c.starts.end());
  }
  if (random.OneIn(5)) p.shape.score.softcap = random.Of({0.5f, 5.0f, 50.0f});
  for (int head = 0; head < q_heads; ++head) {
    if (seed % 5 == 1) c.sinks.push_back(0.5f * static_cast<float>(random.Below(9)) - 2);
    if (seed % 7 == 1) c.slopes.push_back(std::exp2(-8.0f * static_cast<float>(head + 1) / q_heads));
  }
}

int64_t Configurations() {
  const char* text = std::getenv("RONDO_TEST_CONFIGS");
  const int64_t wanted = text == nullptr ? 0 : std::atoll(text);
  return wanted > 0 ? wanted : 2000;
}

TEST(AttendLawTest, AnyWorldAndStrategyGivesTheBitsOfOneRank) {
  std::vector<std::unique_ptr<RankThreads>> worlds;
  for (int world = 1; world <= kMaxWorld; ++world) {
    worlds.push_back(std::make_unique<RankThreads>(world, world == 2 ? 2 : 1));
  }
  int64_t exact = 0;
  const int64_t configurations = Configurations();
  for (int64_t seed = 1; seed <= configurations; ++seed) {
    AttendCase c;
    c.kernels = SelectKernels("").value().attention;
    Choose(c, seed);
    c.Fill(seed);
    RankThreads& ranks = *worlds[1 + seed % (kMaxWorld - 1)];
    RingRunOptions options;
    options.job = seed;
    options.strategy = seed % 2 == 0 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ": " << c.Text() << "; " << ranks.world() << " ranks, "
                                      << Name(options.strategy));
    const AttendAnswer want = RunOnOneRank(c);
    const WorldRun run = RunOnWorld(c, ranks, options);
    const std::vector<RingBytes> planned = RingAttend::Bytes(c.problem, ranks.world(), options.strategy);
    for (int rank = 0; rank < ranks.world(); ++rank) {
      const absl::StatusOr<RingReport>& report = run.reports[rank];
      ASSERT_TRUE(report.ok()) << report.status();
      // Exactly what was planned, unless a rank has nothing to do with some of the nodes it was to compute.
      ASSERT_LE(report->node_bytes, planned[rank].nodes) << rank;
      ASSERT_GE(2 * report->node_bytes, planned[rank].nodes) << rank;
    }
    ASSERT_EQ(CompareBits(c, run.answer, want), "");
    const int64_t work = c.problem.q_tokens * c.problem.kv_tokens * c.problem.shape.q_heads;
    if (work * c.problem.shape.head_dim > 1'000'000) continue;
    ++exact;
    ASSERT_EQ(CompareExact(c, want, Exact(c)), "");
  }
  EXPECT_GT(exact, configurations / 5);
}

// Families whose leaves are two or four blocks, by plain loops.
TEST(AttendLawTest, LargerLeavesToo) {
  std::vector<std::unique_ptr<RankThreads>> worlds;
  for (int world = 1; world <= 5; ++world) worlds.push_back(std::make_unique<RankThreads>(world));
  const int64_t configurations = Configurations() / 20;
  for (int64_t seed = 1; seed <= configurations; ++seed) {
    AttendCase c;
    Choose(c, seed);
    c.problem.shape.leaf_level = 1 + static_cast<int32_t>(seed % 2);
    c.kernels = &PlainKernels(c.problem.shape.leaf_level);
    c.problem.shape.score = {};  // plain loops know no soft cap, bias or sink, and do not round queries
    c.problem.shape.kv_type = KvType::kF32;
    c.sinks.clear();
    c.slopes.clear();
    if (c.problem.kv_tokens * c.problem.q_tokens * c.problem.shape.q_heads * c.problem.shape.head_dim > 4'000'000)
      continue;
    c.Fill(seed);
    RankThreads& ranks = *worlds[1 + seed % 4];
    RingRunOptions options;
    options.job = seed;
    options.strategy = seed % 3 == 0 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ": " << c.Text() << "; " << ranks.world() << " ranks, "
                                      << Name(options.strategy));
    const AttendAnswer want = RunOnOneRank(c);
    const WorldRun run = RunOnWorld(c, ranks, options);
    for (const absl::StatusOr<RingReport>& report : run.reports) ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(CompareBits(c, run.answer, want), "");
    ASSERT_EQ(CompareExact(c, want, Exact(c)), "");
  }
}

}  // namespace
}  // namespace rondo::testing
