// What every transport must do, by processes joined by sockets; and how the ends of processes are told.
#include "bench/gpu/ranks/socket_transport.h"

#include <gtest/gtest.h>

#include <csignal>

#include "absl/time/clock.h"
#include "bench/gpu/ranks/forked_ranks.h"
#include "tests/worker/transport/conformance.h"

namespace rondo {
namespace {

void OnRanks(int world, const std::function<void(Transport&)>& body) {
  const std::vector<std::string> ends = RunInProcesses(world, absl::Minutes(2), [&](Transport& transport) {
    body(transport);
    return ::testing::Test::HasFailure() ? absl::InternalError("see above") : absl::OkStatus();
  });
  for (int rank = 0; rank < world; ++rank) EXPECT_EQ(ends[rank], "") << "rank " << rank;
}

TEST(SocketTransportTest, DoesWhatEveryTransportDoes) {
  for (const int world : {1, 2, 4}) {
    SCOPED_TRACE(world);
    OnRanks(world, [](Transport& t) {
      testing::CheckRingSteps(t, absl::Milliseconds(100));
      testing::CheckShortAndSelf(t);
      testing::CheckReady(t);
      testing::CheckAllGather(t);
      testing::CheckBroadcast(t);
      testing::CheckSentBytes(t);
    });
  }
  OnRanks(2, [](Transport& t) { testing::CheckOneRingStep(t, size_t{33} << 20); });
}

TEST(SocketTransportTest, EndsAsEveryTransportEnds) {
  OnRanks(2, testing::CheckTooLong);
  OnRanks(3, testing::CheckDeadline);
  // Here a rank's Abort is its own, and its going is noticed: the other one stays until it has gone.
  OnRanks(2, [](Transport& t) {
    if (t.rank() == 0) return testing::CheckAbort(t);
    std::vector<std::byte> byte(1);
    const auto posted = t.SendRecv(t.rank(), {}, 0, absl::MakeSpan(byte));
    ASSERT_TRUE(posted.ok()) << posted.status();
    EXPECT_TRUE(absl::IsUnavailable(t.Wait(*posted, absl::Now() + absl::Minutes(1)).status()));
  });
}

TEST(RunInProcessesTest, SaysHowEachRankEnded) {
  const std::vector<std::string> ends = RunInProcesses(4, absl::Seconds(5), [](Transport& transport) {
    if (transport.rank() == 1) return absl::InternalError("the card is lost");
    if (transport.rank() == 2) raise(SIGSEGV);
    if (transport.rank() == 3) absl::SleepFor(absl::Minutes(5));
    return absl::OkStatus();
  });
  EXPECT_EQ(ends[0], "");
  EXPECT_EQ(ends[1], "the card is lost");
  EXPECT_EQ(ends[2], "ended by signal 11 Segmentation fault");
  EXPECT_EQ(ends[3], "not through after 5s");
}

TEST(RunInProcessesTest, ARankThatDiesEndsTheWaitsOfItsPeers) {
  const std::vector<std::string> ends = RunInProcesses(2, absl::Minutes(1), [](Transport& transport) {
    if (transport.rank() == 1) raise(SIGKILL);
    std::byte byte;
    const absl::StatusOr<Transport::Pending> pending = transport.SendRecv(Transport::kNobody, {}, 1, {&byte, 1});
    return pending.ok() ? transport.Wait(*pending, absl::InfiniteFuture()).status() : pending.status();
  });
  EXPECT_EQ(ends[0], "recv from rank 1 (1 bytes): rank 1 has ended");
  EXPECT_EQ(ends[1], "ended by signal 9 Killed");
}

}  // namespace
}  // namespace rondo
