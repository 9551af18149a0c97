// The ring over MPI gives one rank's bits, and a cancelled job leaves the transport clean; every rank of an mpirun runs
// this program.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "tests/worker/ring/attend_harness.h"
#include "tests/worker/ring/plain_kernels.h"
#include "tests/worker/ring/ring_harness.h"
#include "worker/transport/mpi_launch.h"
#include "worker/transport/mpi_transport.h"

namespace rondo::testing {
namespace {

constexpr int kCalls = 10;  // of a job of three chunks and two rows in two layers

RingJob SmallJob(int64_t prompt, int64_t decode, int64_t chunk, uint64_t number) {
  RingJob job;
  job.kernels = &PlainKernels();
  job.shape = {.q_heads = 2, .kv_heads = 1, .head_dim = 8, .kv_type = KvType::kBf16, .scale = 0.35355339f};
  job.prompt = prompt;
  job.decode = decode;
  job.chunk = chunk;
  job.number = number;
  job.strategy = number % 4 == 0 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
  return job;
}

// RingAttend of both strategies: a cached prefix, a window, packed sequences with a sink.
void ExpectAttendBits(MpiTransport& t, uint64_t job) {
  ThreadPool threads(1);
  const std::atomic<bool> never{false};
  for (int kind = 0; kind < 6; ++kind) {
    AttendCase c;
    c.kernels = &PlainKernels();
    c.problem.shape = {.q_heads = 2, .kv_heads = 1, .head_dim = 8, .kv_type = KvType::kBf16, .scale = 0.35355339f};
    c.problem.kv_tokens = 3000;
    c.problem.q_tokens = kind < 2 ? 100 : 3000;
    if (kind / 2 == 1) c.problem.mask.window = 300;
    if (kind / 2 == 2) c.starts = {0, 700, 700, 1500, 3000};
    c.Fill(kind);
    RingRunOptions options;
    options.job = ++job;
    options.strategy = kind % 2 == 0 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
    AttendAnswer answer = EmptyAnswer(c);
    const absl::StatusOr<RingReport> report = RunRank(c, t, threads, options, never, answer);
    ASSERT_TRUE(report.ok()) << report.status();
    // Rows of other ranks are not here: take the right ones in their place.
    const AttendAnswer want = RunOnOneRank(c);
    const RingShares shares = PlanShares(c.problem, t.world_size());
    int64_t rows = 0;
    for (int rank = 0; rank < t.world_size(); ++rank) {
      for (const PositionRun& run : shares.q_rows[rank]) {
        rows += run.size();
        if (rank == t.rank()) continue;
        std::copy(want.out.begin() + run.begin * 16, want.out.begin() + run.end * 16,
                  answer.out.begin() + run.begin * 16);
        std::copy(want.lse.begin() + run.begin * 2, want.lse.begin() + run.end * 2, answer.lse.begin() + run.begin * 2);
      }
    }
    ASSERT_EQ(rows, c.problem.q_tokens);
    ASSERT_EQ(CompareBits(c, answer, want), "") << c.Text();
  }
}

TEST(RingMpi, BitsAndCancellation) {
  absl::StatusOr<std::unique_ptr<MpiTransport>> transport = MpiTransport::Create();
  ASSERT_TRUE(transport.ok()) << transport.status();
  MpiTransport& t = **transport;
  const std::atomic<bool> never{false};
  uint64_t number = 0;
  for (int round = 0; round < 5; ++round) {
    for (int ring_size = 2; ring_size <= t.world_size(); ++ring_size) {
      number += 2;
      if (t.rank() >= ring_size) continue;  // a ring of some of the ranks
      SCOPED_TRACE(::testing::Message() << "round " << round << ", " << ring_size << " ranks");
      RingJob cancelled = SmallJob(520, 2, 256, number - 1);
      std::atomic<bool> flag{false};
      cancelled.before_layer = [&](int64_t call) {
        if (call == round + ring_size && t.rank() == round % ring_size) flag = true;
      };
      const absl::Status status = RunRingJob(cancelled, t, ring_size, flag).status();
      ASSERT_EQ(absl::IsCancelled(status), round + ring_size < kCalls) << status;
      ASSERT_EQ(status.ok(), round + ring_size >= kCalls) << status;
      const RingJob job = SmallJob(257 + 100 * round, 3, round % 2 == 0 ? 0 : 300, number);
      const absl::StatusOr<RingOutput> output = RunRingJob(job, t, ring_size, never);
      ASSERT_TRUE(output.ok()) << output.status();
      ASSERT_EQ(CompareRows(job, t.rank(), ring_size, *output, RunAlone(job)), "");
    }
  }
  ExpectAttendBits(t, number);
  const absl::Status closed = t.Close(absl::Now() + absl::Seconds(60));
  EXPECT_TRUE(closed.ok()) << closed;
}

}  // namespace
}  // namespace rondo::testing
