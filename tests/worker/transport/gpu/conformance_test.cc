// What every transport must do, by the transports of ranks on GPUs, in every kind of memory.
#include "tests/worker/transport/conformance.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/worker/transport/gpu/gpu_group.h"

namespace rondo::testing {
namespace {

struct Case {
  const char* road;
  GpuGroup::Make make;
  int world;
  int devices;
  bool one_process;
  bool send;  // from device memory
  bool recv;  // into it
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int world : {1, 2, 3, 4}) cases.push_back({"Nccl", MakeNccl, world, world, false, true, true});
  for (const int world : {1, 2, 4}) cases.push_back({"CudaIpc", MakeIpc, world, 2, false, true, true});
  cases.push_back({"CudaIpcOneProcess", MakeIpc, 3, 1, true, true, true});
  for (const int world : {1, 3}) cases.push_back({"Staged", MakeStaged, world, 1, false, true, true});
  for (const bool send : {false, true}) {
    cases.push_back({"Nccl", MakeNccl, 3, 3, false, send, !send});
    cases.push_back({"CudaIpc", MakeIpc, 3, 1, false, send, !send});
    cases.push_back({"Staged", MakeStaged, 3, 1, false, send, !send});
  }
  cases.push_back({"Nccl", MakeNccl, 3, 3, false, false, false});
  return cases;
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  return std::string(info.param.road) + std::to_string(info.param.world) + (info.param.send ? "Device" : "Host") +
         "To" + (info.param.recv ? "Device" : "Host");
}

class GpuConformance : public ::testing::TestWithParam<Case> {
 protected:
  void Check(const std::function<void(Transport&)>& check) {
    const Case& c = GetParam();
    GpuGroup group(c.world, c.devices, 100 * c.world + c.send, c.one_process);
    group.Run(c.make, [&](DeviceTransport& transport) {
      ThroughDeviceMemory through(transport, *group.cuda[transport.rank()], c.send, c.recv);
      check(through);
    });
    nccl_groups_ = group.nccl.groups();
    EXPECT_EQ(group.nccl.open_comms(), 0);
  }

  int nccl_groups_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, GpuConformance, ::testing::ValuesIn(Cases()), CaseName);

TEST_P(GpuConformance, RingSteps) {
  Check([](Transport& t) { CheckRingSteps(t, absl::Milliseconds(50)); });
  EXPECT_EQ(nccl_groups_ > 0, std::string(GetParam().road) == "Nccl" && GetParam().world > 1 && GetParam().send);
}
TEST_P(GpuConformance, Megabytes) {
  Check([](Transport& t) { CheckOneRingStep(t, size_t{4} << 20); });
}
TEST_P(GpuConformance, ShortAndSelf) { Check(CheckShortAndSelf); }
TEST_P(GpuConformance, Ready) { Check(CheckReady); }
TEST_P(GpuConformance, AllGather) { Check(CheckAllGather); }
TEST_P(GpuConformance, Broadcast) { Check(CheckBroadcast); }
TEST_P(GpuConformance, SentBytes) { Check(CheckSentBytes); }
TEST_P(GpuConformance, Deadline) { Check(CheckDeadline); }
TEST_P(GpuConformance, Abort) { Check(CheckAbort); }
TEST_P(GpuConformance, TooLong) {
  if (GetParam().world > 1) Check(CheckTooLong);
}

}  // namespace
}  // namespace rondo::testing
