// The transport over NCCL, with the fake NCCL: what every transport must do, in every kind of memory.
#include "worker/transport/nccl/nccl_transport.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "absl/time/clock.h"
#include "tests/worker/transport/conformance.h"
#include "tests/worker/transport/gpu/gpu_group.h"

namespace rondo::testing {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

GpuGroup::Made MakeRank(GpuGroup& group, int rank) {
  return MakeNcclTransport(*group.control[rank], *group.cuda[rank], group.nccl,
                           {.device = group.device(rank), .epoch = 7}, {}, Soon());
}

struct Memory {
  const char* name;
  bool send;
  bool recv;
};

class NcclConformance : public ::testing::TestWithParam<std::tuple<int, Memory>> {
 protected:
  void Check(const std::function<void(Transport&)>& check, int least_world = 1) {
    const auto& [world, memory] = GetParam();
    if (world < least_world) GTEST_SKIP() << "needs " << least_world << " ranks";
    GpuGroup group(world, world, 100 * world + memory.send);
    group.Run(MakeRank, [&, m = memory](DeviceTransport& transport) {
      ThroughDeviceMemory through(transport, *group.cuda[transport.rank()], m.send, m.recv);
      check(through);
    });
    launched_groups_ = group.nccl.groups();
  }
  bool uses_nccl() const { return std::get<0>(GetParam()) > 1 && std::get<1>(GetParam()).send; }

  int launched_groups_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    All, NcclConformance,
    ::testing::Combine(::testing::Values(1, 2, 3, 4),
                       ::testing::Values(Memory{"Host", false, false}, Memory{"Device", true, true},
                                         Memory{"DeviceToHost", true, false}, Memory{"HostToDevice", false, true})),
    [](const auto& info) {
      return std::string(std::get<1>(info.param).name) + std::to_string(std::get<0>(info.param));
    });

TEST_P(NcclConformance, RingSteps) {
  Check([](Transport& t) { CheckRingSteps(t, absl::Milliseconds(100)); });
  EXPECT_EQ(launched_groups_ > 0, uses_nccl());
}
TEST_P(NcclConformance, Megabytes) {
  Check([](Transport& t) { CheckOneRingStep(t, size_t{4} << 20); });
}
TEST_P(NcclConformance, ShortAndSelf) { Check(CheckShortAndSelf); }
TEST_P(NcclConformance, AllGather) { Check(CheckAllGather); }
TEST_P(NcclConformance, Broadcast) { Check(CheckBroadcast); }
TEST_P(NcclConformance, SentBytes) { Check(CheckSentBytes); }
TEST_P(NcclConformance, Deadline) { Check(CheckDeadline); }
TEST_P(NcclConformance, Abort) { Check(CheckAbort); }
TEST_P(NcclConformance, TooLong) { Check(CheckTooLong, 2); }

}  // namespace
}  // namespace rondo::testing
