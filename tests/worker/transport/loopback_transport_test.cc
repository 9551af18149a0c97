// The loopback transport: ranks as threads.
#include "worker/transport/loopback_transport.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/testing/faulty_transport.h"
#include "tests/worker/transport/conformance.h"

namespace rondo::testing {
namespace {

void OnRanks(int world, const std::function<void(Transport&)>& body) {
  LoopbackHub hub(world);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < world; ++rank) transports.push_back(hub.Connect(rank));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] { body(*transports[rank]); });
  }
  for (std::thread& rank : ranks) rank.join();
}

class LoopbackTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, LoopbackTest, ::testing::Values(1, 2, 3, 4, 7));

TEST_P(LoopbackTest, RingSteps) {
  OnRanks(GetParam(), [](Transport& t) { CheckRingSteps(t, absl::Milliseconds(300)); });
}
TEST_P(LoopbackTest, ManyMegabytes) {
  OnRanks(GetParam() > 4 ? 2 : GetParam(), [](Transport& t) { CheckOneRingStep(t, size_t{64} << 20); });
}
TEST_P(LoopbackTest, ShortAndSelf) { OnRanks(GetParam(), CheckShortAndSelf); }
TEST_P(LoopbackTest, Ready) { OnRanks(GetParam(), CheckReady); }
TEST_P(LoopbackTest, AllGather) { OnRanks(GetParam(), CheckAllGather); }
TEST_P(LoopbackTest, Broadcast) { OnRanks(GetParam(), CheckBroadcast); }
TEST_P(LoopbackTest, SentBytes) { OnRanks(GetParam(), CheckSentBytes); }
TEST_P(LoopbackTest, Deadline) { OnRanks(GetParam(), CheckDeadline); }
TEST_P(LoopbackTest, Abort) { OnRanks(GetParam(), CheckAbort); }
TEST(LoopbackTest, TooLong) { OnRanks(2, CheckTooLong); }

TEST(LoopbackTest, ARankThatLeavesFailsLaterReceivesOnly) {
  LoopbackHub hub(2);
  std::unique_ptr<Transport> stays = hub.Connect(0);
  std::unique_ptr<Transport> leaves = hub.Connect(1);
  const std::vector<std::byte> sent(10, std::byte{5});
  ASSERT_TRUE(leaves->SendRecv(0, sent, 1, {}).ok());
  leaves.reset();
  std::vector<std::byte> got(10);
  const auto first = stays->SendRecv(0, {}, 1, absl::MakeSpan(got));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(stays->Wait(*first, absl::InfiniteFuture()).value(), 10u);
  EXPECT_EQ(got, sent);
  const auto second = stays->SendRecv(0, {}, 1, absl::MakeSpan(got));
  ASSERT_TRUE(second.ok());
  const absl::Status status = stays->Wait(*second, absl::InfiniteFuture()).status();
  EXPECT_EQ(std::string(status.message()), "recv from rank 1 (10 bytes): rank 1 has left");
}

// Whichever rank fails, and at whichever call, every rank ends with an error.
TEST(LoopbackTest, AnInjectedFailureReachesEveryRank) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    OnRanks(3, [&](Transport& inner) {
      FaultPlan plan{.seed = seed, .longest_delay = absl::Milliseconds(1)};
      if (inner.rank() == static_cast<int>(seed % 3)) plan.fail_at_call = static_cast<int64_t>(seed * 5 % 37);
      FaultyTransport t(inner, plan);
      absl::Status status;
      std::vector<std::byte> send(100), recv(100);
      for (int step = 0; step < 40 && status.ok(); ++step) {
        const auto pending = t.SendRecv((t.rank() + 1) % 3, send, (t.rank() + 2) % 3, absl::MakeSpan(recv));
        status = pending.ok() ? t.Wait(*pending, absl::Now() + absl::Seconds(60)).status() : pending.status();
      }
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_NE(std::string(status.message()).find("injected"), std::string::npos) << status;
    });
  }
}

}  // namespace
}  // namespace rondo::testing
