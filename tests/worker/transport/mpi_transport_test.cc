// The MPI transport; every rank of an mpirun runs this program, which is one test of the name it is given.
#include "worker/transport/mpi_transport.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "absl/time/clock.h"
#include "tests/worker/transport/conformance.h"
#include "worker/transport/mpi_launch.h"

namespace rondo::testing {
namespace {

std::unique_ptr<MpiTransport> Start(size_t chunk_bytes = size_t{1} << 30) {
  absl::StatusOr<std::unique_ptr<MpiTransport>> transport =
      MpiTransport::Create({.chunk_bytes = chunk_bytes, .init_timeout = absl::Seconds(60)});
  EXPECT_TRUE(transport.ok()) << transport.status();
  if (!transport.ok()) HardExit(1);
  return *std::move(transport);
}

void CloseInOrder(MpiTransport& transport) {
  const absl::Status closed = transport.Close(absl::Now() + absl::Seconds(30));
  EXPECT_TRUE(closed.ok()) << closed;
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

TEST(Mpi, Conformance) {
  const std::unique_ptr<MpiTransport> t = Start();
  const std::optional<MpiLaunch> launch = MpiLaunch::FromEnvironment();
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(launch->rank, t->rank());
  EXPECT_EQ(launch->world, t->world_size());
  CheckRingSteps(*t, absl::Seconds(2));
  CheckOneRingStep(*t, size_t{64} << 20);
  CheckShortAndSelf(*t);
  CheckReady(*t);
  CheckAllGather(*t);
  CheckBroadcast(*t);
  CheckSentBytes(*t);
  CloseInOrder(*t);
}

// A limit of 1,000 bytes in the place of INT_MAX: the same code cuts both.
TEST(Mpi, ChunkLimit) {
  const std::unique_ptr<MpiTransport> t = Start(1000);
  for (const size_t bytes : {0, 999, 1000, 1001, 16384, 16385, 17000, 1000003}) CheckOneRingStep(*t, bytes);
  CloseInOrder(*t);
}

TEST(Mpi, TwoGibibytesAndOneByte) {
  const std::unique_ptr<MpiTransport> t = Start();
  // A ring step holds three buffers of that size on each rank.
  const double needed = 7.0 * t->world_size() * 1024 * 1024 * 1024;
  double available = 0;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string word; meminfo >> word;) {
    if (word == "MemAvailable:" && meminfo >> available) available *= 1024;
  }
  bool enough = available > needed && std::getenv("RONDO_TEST_LARGE") != nullptr;
  // All ranks must come to the same answer.
  std::byte answer[1] = {std::byte{enough}};
  ASSERT_TRUE(t->Broadcast(0, t->world_size(), answer, absl::Now() + absl::Seconds(60)).ok());
  if (answer[0] == std::byte{1}) CheckOneRingStep(*t, (size_t{2} << 30) + 1);
  CloseInOrder(*t);
  if (answer[0] == std::byte{0}) GTEST_SKIP() << "set RONDO_TEST_LARGE and have " << needed / 1e9 << " GB of memory";
}

TEST(Mpi, IdleRanksSleep) {
  const std::unique_ptr<MpiTransport> t = Start();
  CheckOneRingStep(*t, 100000);
  absl::SleepFor(absl::Milliseconds(100));
  const double before = CpuSeconds();
  absl::SleepFor(absl::Seconds(1));
  const double idle = CpuSeconds() - before;
  // With a receive posted and no sender, as while a peer computes.
  const int next = (t->rank() + 1) % t->world_size();
  std::byte never[1];
  const auto open = t->SendRecv(t->rank(), {}, next, never);
  ASSERT_TRUE(open.ok());
  const double posted_before = CpuSeconds();
  absl::SleepFor(absl::Seconds(1));
  const double waiting = CpuSeconds() - posted_before;
  std::fprintf(stderr, "rank %d: CPU %.4f s of an idle second, %.4f s of a waiting second\n", t->rank(), idle, waiting);
  EXPECT_LT(idle, 0.02);
  EXPECT_LT(waiting, 0.25);
  // Let the open receives end so that MPI can be closed.
  const auto last = t->SendRecv((t->rank() + t->world_size() - 1) % t->world_size(), {}, t->rank(), never);
  ASSERT_TRUE(last.ok());
  EXPECT_TRUE(t->Wait(*open, absl::Now() + absl::Seconds(30)).ok());
  EXPECT_TRUE(t->Wait(*last, absl::Now() + absl::Seconds(30)).ok());
  CloseInOrder(*t);
}

// These end with a dead transport, and mpirun calls ranks that end without MPI_Finalize failed; so ctest looks for this
// line of every rank. Ranks stay until the others are through.
void ReportAndExit(int rank) {
  if (!::testing::Test::HasFailure()) std::fprintf(stderr, "rank %d as expected\n", rank);
  absl::SleepFor(absl::Seconds(2));
  HardExit(0);
}

void EndDead(const std::function<void(Transport&)>& check) {
  const std::unique_ptr<MpiTransport> t = Start();
  check(*t);
  ReportAndExit(t->rank());
}

TEST(Mpi, DeadTooLong) { EndDead(CheckTooLong); }
TEST(Mpi, DeadDeadline) { EndDead(CheckDeadline); }
TEST(Mpi, DeadAbort) { EndDead(CheckAbort); }

// A rank that never closes: the others give up at their deadline.
TEST(Mpi, DeadClose) {
  const std::unique_ptr<MpiTransport> t = Start();
  if (t->rank() == 0) {
    const absl::Status closed = t->Close(absl::Now() + absl::Milliseconds(300));
    EXPECT_EQ(closed.code(), absl::StatusCode::kDeadlineExceeded) << closed;
  }
  ReportAndExit(t->rank());
}

}  // namespace
}  // namespace rondo::testing
