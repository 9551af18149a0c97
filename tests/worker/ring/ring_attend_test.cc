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

// Two queries, both on rank 0, on two blocks. pass-KV: rank 1's block comes to rank 0, and rank 1, which has no rows,
// gets nothing. pass-Q: 2 * 2 * 4 floats of queries go to rank 1, and one node of 2 * 2 * (4 + 2) floats comes back.
TEST(RingAttendTest, BytesOfBothStrategiesByHand) {
  RankThreads ranks(2);
  AttendCase c;
  Shape(c, 2, 1, 4, KvType::kF32);
  c.problem.mask.causal = false;
  c.problem.q_tokens = 2;
  c.problem.kv_tokens = 512;
  c.Fill(4);
  const AttendAnswer want = RunOnOneRank(c);
  const auto sent = [&](RingStrategy strategy, int rank) {
    RingRunOptions options;
    options.strategy = strategy;
    const WorldRun run = RunOnWorld(c, ranks, options);
    EXPECT_EQ(CompareBits(c, run.answer, want), "");
    return run.reports[rank]->sent_bytes - 64;  // less the agreement
  };
  EXPECT_EQ(sent(RingStrategy::kPassKv, 0), 0u);
  EXPECT_EQ(sent(RingStrategy::kPassKv, 1), 64u + 8192u);
  EXPECT_EQ(sent(RingStrategy::kPassQ, 0), 64u + 64u);
  EXPECT_EQ(sent(RingStrategy::kPassQ, 1), 64u + 96u);
}

// On one rank a strip is finished before the next begins. Of 32 blocks the strip of block 30 sees 31: nodes of 16, 8, 4,
// 2 and 1, each 256 rows of one head of 2 + 2 floats.
TEST(RingAttendTest, KeepsTheNodesOfOneStripOnOneRank) {
  RankThreads ranks(1);
  AttendCase c;
  Shape(c, 1, 1, 2, KvType::kF32);
  c.problem.q_tokens = c.problem.kv_tokens = 32 * 256;
  c.Fill(5);
  const WorldRun run = RunOnWorld(c, ranks, {});
  ASSERT_TRUE(run.reports[0].ok());
  EXPECT_EQ(run.reports[0]->node_bytes, 5u * 256 * (2 + 2) * sizeof(float));
  EXPECT_EQ(RingAttend::Bytes(c.problem, 1, RingStrategy::kAuto)[0].nodes, 5u * 256 * (2 + 2) * sizeof(float));
}

// One query whose weights on two shards sum to 2 and 8, with outputs 0 and 10: 8.0, and ln 10.
TEST(RingAttendTest, LogSumExpIsNatural) {
  RankThreads ranks(2);
  AttendCase c;
  Shape(c, 1, 1, 1, KvType::kF32);
  c.problem.q_tokens = 1;
  c.problem.kv_tokens = 512;
  c.Fill(1);
  c.q[0] = 1;
  for (int key = 0; key < 512; ++key) {
    c.k[key] = std::log((key < 256 ? 2.0f : 8.0f) / 256);
    c.v[key] = key < 256 ? 0 : 10;
  }
  for (const RingStrategy strategy : {RingStrategy::kPassKv, RingStrategy::kPassQ}) {
    RingRunOptions options;
    options.strategy = strategy;
    const WorldRun run = RunOnWorld(c, ranks, options);
    EXPECT_NEAR(run.answer.out[0], 8.0, 1e-5);
    EXPECT_NEAR(run.answer.lse[0], std::log(10.0), 1e-6);
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
  for (int run = 0; run < 8; ++run) {
    const int who = run % 4;
    RingRunOptions options;
    options.strategy = run < 4 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
    std::vector<std::atomic<bool>> flags(4);
    flags[who] = true;
    std::vector<absl::Status> status(4);
    AttendAnswer dropped = EmptyAnswer(c);
    ranks.Run([&](Transport& transport, ThreadPool& threads) {
      status[transport.rank()] = RunRank(c, transport, threads, options, flags[transport.rank()], dropped).status();
    });
    for (const absl::Status& s : status) EXPECT_TRUE(absl::IsCancelled(s)) << s;
    ExpectBitsOfOneRank(c, ranks, want, options.strategy);
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
  bad.shape.score.softcap = -1;
  EXPECT_EQ(Refusal(bad), "softcap must be 0 (none) or 1e-06 to 1e+06, not -1");
  bad = good;
  const std::vector<int64_t> wrong_first = {1, 10};
  bad.mask.sequence_starts = wrong_first;
  EXPECT_EQ(Refusal(bad), "sequence_starts[0] must be 0, not 1");
  const std::vector<int64_t> falling = {0, 5, 4, 10};
  bad.mask.sequence_starts = falling;
  EXPECT_EQ(Refusal(bad), "sequence_starts must ascend: [2] is 4, below the 5 before it");
  const std::vector<int64_t> short_of = {0, 9};
  bad.mask.sequence_starts = short_of;
  EXPECT_EQ(Refusal(bad), "the last of sequence_starts must be the number of keys, 10, not 9");
  bad = good;
  const std::vector<float> slopes = {0, 0, INFINITY, 0};
  bad.shape.score.alibi_slopes = slopes.data();
  EXPECT_EQ(Refusal(bad), "alibi_slopes[2] must be finite, not inf");
  bad = good;
  bad.shape.q_heads = bad.shape.kv_heads = 2147483647;
  bad.q_tokens = bad.kv_tokens = 2147483647;
  EXPECT_EQ(Refusal(bad), "q of [2147483647, 2147483647, 64] is too large: its bytes must be below 2^62");
}

}  // namespace
}  // namespace rondo::testing
