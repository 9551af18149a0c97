// RingAttend by hand-made cases: plans, edges, byte counts, cancellation, and what it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/registry.h"
#include "rondo/ring.h"
#include "tests/worker/ring/attend_harness.h"

namespace rondo::testing {
namespace {

void Shape(AttendCase& c, int32_t q_heads, int32_t kv_heads, int32_t head_dim, KvType type) {
  c.kernels = SelectKernels("").value().attention;
  c.problem.shape = {.q_heads = q_heads,
                     .kv_heads = kv_heads,
                     .head_dim = head_dim,
                     .kv_type = type,
                     .scale = 1 / std::sqrt(static_cast<float>(head_dim))};
}

void ExpectBitsOfOneRank(const AttendCase& c, RankThreads& ranks, const AttendAnswer& want, RingStrategy strategy) {
  SCOPED_TRACE(::testing::Message() << c.Text() << " on " << ranks.world() << " ranks, " << Name(strategy));
  RingRunOptions options;
  options.strategy = strategy;
  const WorldRun run = RunOnWorld(c, ranks, options);
  for (const absl::StatusOr<RingReport>& report : run.reports) ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(CompareBits(c, run.answer, want), "");
}

TEST(RingAttendTest, EveryShortLengthAndTheLengthsRoundTwoW) {
  for (int world = 1; world <= 5; ++world) {
    RankThreads ranks(world);
    std::vector<int64_t> lengths = {2 * world - 1, 2 * world, 2 * world + 1};
    for (int64_t n = 0; n <= 40; ++n) lengths.push_back(n);
    for (const int64_t blocks : {2 * world - 1, 2 * world, 2 * world + 1}) lengths.push_back(blocks * kBlockTokens);
    for (const int64_t n : lengths) {
      for (const bool causal : {true, false}) {
        AttendCase c;
        Shape(c, 2, 1, 4, n % 2 == 0 ? KvType::kF32 : KvType::kBf16);
        c.problem.mask.causal = causal;
        c.problem.q_tokens = c.problem.kv_tokens = n;
        c.Fill(n);
        const AttendAnswer want = RunOnOneRank(c);
        if (n <= 40) {
          ASSERT_EQ(CompareExact(c, want, Exact(c)), "") << c.Text();
        }
        ExpectBitsOfOneRank(c, ranks, want, RingStrategy::kPassKv);
        ExpectBitsOfOneRank(c, ranks, want, RingStrategy::kPassQ);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// One query on five keys sees all of them; of five queries on two keys the first three see none.
TEST(RingAttendTest, TheMaskIsAlignedToTheEnd) {
  RankThreads ranks(3);
  AttendCase c;
  Shape(c, 1, 1, 2, KvType::kF32);
  c.problem.q_tokens = 5;
  c.problem.kv_tokens = 2;
  c.Fill(1);
  const WorldRun run = RunOnWorld(c, ranks, {});
  for (int row = 0; row < 3; ++row) {
    EXPECT_EQ(run.answer.out[2 * row], 0);
    EXPECT_EQ(run.answer.lse[row], -std::numeric_limits<float>::infinity());
  }
  EXPECT_NEAR(run.answer.out[6], c.v[0], 1e-6) << "the fourth row sees key 0 alone";
  EXPECT_EQ(CompareExact(c, run.answer, Exact(c)), "");
  c.problem.q_tokens = 1;
  c.problem.kv_tokens = 5;
  c.Fill(2);
  EXPECT_FALSE(std::isnan(c.k[0])) << "key 0 is seen";
  const WorldRun one = RunOnWorld(c, ranks, {});
  EXPECT_EQ(CompareExact(c, one.answer, Exact(c)), "");
}

// 8 ranks, 4096 tokens, a window of 256: runs are contiguous, 2 blocks each, and a rank sees of others only the last
// block of the one before it. So each rank but the last sends one block on one hop.
TEST(RingAttendTest, AWindowSendsOneBlockToTheNeighbour) {
  RankThreads ranks(8);
  AttendCase c;
  Shape(c, 2, 1, 4, KvType::kF32);
  c.problem.mask.window = 256;
  c.problem.q_tokens = c.problem.kv_tokens = 4096;
  c.Fill(3);
  const WorldRun run = RunOnWorld(c, ranks, {});
  EXPECT_EQ(CompareBits(c, run.answer, RunOnOneRank(c)), "");
  const uint64_t agreement = 7 * 64;           // 64 bytes to each other rank
  const uint64_t block = 2 * 1 * 256 * 4 * 4;  // K and V, one head, 256 keys of four floats
  for (int rank = 0; rank < 8; ++rank) {
    ASSERT_TRUE(run.reports[rank].ok());
    EXPECT_EQ(run.reports[rank]->sent_bytes, agreement + (rank == 7 ? 0 : 64 + block)) << rank;
    EXPECT_EQ(run.reports[rank]->skipped_steps, rank == 0 ? 7 : 6) << rank;
    EXPECT_EQ(run.reports[rank]->steps.size(), 8u);
  }
}

TEST(RingAttendTest, WindowEdgesOnShardBorders) {
  for (const int world : {2, 3, 8}) {
    RankThreads ranks(world);
    for (const int64_t window : {1, 4, 255, 256, 257, 511, 513}) {
      for (const bool causal : {true, false}) {
        AttendCase c;
        Shape(c, 1, 1, 3, KvType::kF32);
        c.problem.mask = {.causal = causal, .window = window};
        c.problem.q_tokens = c.problem.kv_tokens = 1100;
        c.Fill(window);
        const AttendAnswer want = RunOnOneRank(c);
        ASSERT_EQ(CompareExact(c, want, Exact(c)), "") << c.Text();
        ExpectBitsOfOneRank(c, ranks, want, RingStrategy::kPassKv);
        ExpectBitsOfOneRank(c, ranks, want, RingStrategy::kPassQ);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(RingAttendTest, CancelledOnOneRankIsCancelledOnAll) {
  RankThreads ranks(4);
  AttendCase c;
  Shape(c, 2, 1, 8, KvType::kF32);
  c.problem.q_tokens = c.problem.kv_tokens = 3000;
  c.Fill(5);
  const AttendAnswer want = RunOnOneRank(c);
  for (int who = 0; who < 4; ++who) {
    std::vector<std::atomic<bool>> flags(4);
    flags[who] = true;
    std::vector<absl::Status> status(4);
    AttendAnswer dropped = EmptyAnswer(c);
    ranks.Run([&](Transport& transport, ThreadPool& threads) {
      status[transport.rank()] = RunRank(c, transport, threads, {}, flags[transport.rank()], dropped).status();
    });
    for (const absl::Status& s : status) EXPECT_TRUE(absl::IsCancelled(s)) << s;
    ExpectBitsOfOneRank(c, ranks, want, RingStrategy::kPassKv);
  }
}

std::string Refusal(const RingProblem& problem) { return std::string(Validate(problem).message()); }

TEST(RingAttendTest, RefusesWithFieldValueAndLimit) {
  RingProblem good;
  good.shape = {.q_heads = 4, .kv_heads = 2, .head_dim = 64, .scale = 0.125f};
  good.q_tokens = good.kv_tokens = 10;
  EXPECT_TRUE(Validate(good).ok());
  RingProblem bad = good;
  bad.shape.kv_heads = 3;
  EXPECT_EQ(Refusal(bad), "kv_heads must divide q_heads: 3 does not divide 4");
  bad = good;
  bad.shape.head_dim = 257;
  EXPECT_EQ(Refusal(bad), "head_dim must be 1 to 256, not 257");
  bad = good;
  bad.q_tokens = -1;
  EXPECT_EQ(Refusal(bad), "q_tokens must be 0 to 2147483647, not -1");
  bad = good;
  bad.kv_tokens = int64_t{1} << 40;
  EXPECT_EQ(Refusal(bad), "kv_tokens must be 0 to 2147483647, not 1099511627776");
  bad = good;
  bad.shape.scale = std::nanf("");
  EXPECT_EQ(Refusal(bad), "scale must be finite, not nan");
  bad = good;
  bad.mask.window = -5;
  EXPECT_EQ(Refusal(bad), "window must be 0 to 9223372036854775807, not -5");
  bad = good;
  bad.shape.q_heads = bad.shape.kv_heads = 2147483647;
  bad.q_tokens = bad.kv_tokens = 2147483647;
  EXPECT_EQ(Refusal(bad), "q of [2147483647, 2147483647, 64] is too large: its bytes must be below 2^62");
}

}  // namespace
}  // namespace rondo::testing
