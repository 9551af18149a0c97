// The decisions about device and transport, over facts written by hand.
#include "worker/device/choose_device.h"

#include <gtest/gtest.h>

namespace rondo::testing {
namespace {

GpuFacts Machine(int gpus) {
  GpuFacts facts;
  facts.module_error = "";
  facts.module_absent = false;
  facts.module_cuda = 13000;
  facts.module_targets = "sm_80 sm_90a";
  facts.driver_cuda = 13010;
  for (int i = 0; i < gpus; ++i) facts.devices.push_back({"NVIDIA H200", 90});
  return facts;
}

const DeviceRequest kAuto{};
const DeviceRequest kCuda{.kind = DeviceRequest::Kind::kCuda};

struct Row {
  const char* name;
  void (*spoil)(GpuFacts& facts, DeviceRequest& request);
  GpuReason reason;
  const char* says;    // what is wrong, with the number
  const char* remedy;  // what to do
};

// One reason spoilt at a time, each later one still there: the first in the order is told.
const Row kRows[] = {
    {"module absent",
     [](GpuFacts& f, DeviceRequest&) {
       f.module_error = "there is no /opt/bin/librondo_cuda.so";
       f.module_absent = true;
     },
     GpuReason::kModuleAbsent, "there is no /opt/bin/librondo_cuda.so", "cmake --workflow --preset cuda"},
    {"cuBLASLt missing",
     [](GpuFacts& f, DeviceRequest&) {
       f.module_error = "libcublasLt.so.13: cannot open shared object file: No such file or directory";
       f.cublas_missing = true;
     },
     GpuReason::kCublasMissing, "cuBLASLt is missing: libcublasLt.so.13: cannot open", "LD_LIBRARY_PATH"},
    {"module of another version", [](GpuFacts& f, DeviceRequest&) { f.module_error = "/x.so is of version 2"; },
     GpuReason::kModuleUnusable, "/x.so is of version 2", "build it together"},
    {"driver absent",
     [](GpuFacts& f, DeviceRequest&) {
       f.driver_cuda = 0;
       f.driver_error = "libcuda.so.1: cannot open shared object file";
       f.devices.clear();
     },
     GpuReason::kDriverAbsent, "libcuda.so.1: cannot open", "--gpus all"},
    {"driver too old", [](GpuFacts& f, DeviceRequest&) { f.driver_cuda = 12080; }, GpuReason::kDriverTooOld,
     "CUDA up to 12.8, the GPU module needs 13.0", "newer driver"},
    {"no device",
     [](GpuFacts& f, DeviceRequest&) {
       f.devices.clear();
       f.driver_error = "no CUDA-capable device is detected";
     },
     GpuReason::kNoDevice, "shows no GPU: no CUDA-capable device", "CUDA_VISIBLE_DEVICES"},
    {"no such device", [](GpuFacts&, DeviceRequest& r) { r.index = 2; }, GpuReason::kNoSuchDevice, "no GPU 2",
     "sees 2"},
    {"capability too low",
     [](GpuFacts& f, DeviceRequest&) {
       f.devices[1] = {"Tesla V100", 70};
     },
     GpuReason::kCapabilityTooLow, "GPU 1 (Tesla V100) has compute capability 7.0, needed: 8.0", "--device cuda:INDEX"},
    {"no kernels", [](GpuFacts& f, DeviceRequest&) { f.module_targets = ""; }, GpuReason::kNoKernels,
     "holds no kernels", "nvcc"},
    {"cuDNN missing",
     [](GpuFacts& f, DeviceRequest& r) {
       f.cudnn_error = "libcudnn.so.9: cannot open shared object file";
       r.needs_cudnn = true;
     },
     GpuReason::kCudnnMissing, "libcudnn.so.9: cannot open", "leave out --kernels cudnn"},
};

TEST(ChooseDevice, EachReasonIsToldWithWhatToDo) {
  const RankPlace place{.local_rank = 1, .local_size = 2, .world = 2};
  for (const Row& row : kRows) {
    GpuFacts facts = Machine(2);
    DeviceRequest request = kCuda;
    row.spoil(facts, request);
    const absl::StatusOr<DeviceChoice> refused = ChooseDevice(request, place, facts);
    ASSERT_FALSE(refused.ok()) << row.name;
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << row.name;
    const std::string text(refused.status().message());
    EXPECT_NE(text.find(row.says), std::string::npos) << row.name << ": " << text;
    EXPECT_NE(text.find(row.remedy), std::string::npos) << row.name << ": " << text;
    std::string why;
    EXPECT_EQ(JudgeGpu(request, place, facts, &why), row.reason) << row.name;
    // auto says the same and goes on.
    request.kind = DeviceRequest::Kind::kAuto;
    const absl::StatusOr<DeviceChoice> fallen = ChooseDevice(request, place, facts);
    ASSERT_TRUE(fallen.ok()) << row.name;
    EXPECT_FALSE(fallen->cuda);
    EXPECT_EQ(fallen->reason, row.reason);
    EXPECT_EQ("--device cuda: " + fallen->why, text);
  }
}

TEST(ChooseDevice, TheFirstReasonIsTold) {
  // Everything is wrong, then is put right one by one.
  for (size_t first = 0; first < std::size(kRows); ++first) {
    GpuFacts facts = Machine(2);
    DeviceRequest request = kCuda;
    for (size_t i = std::size(kRows); i-- > first;) {
      // The V100 is the second GPU, which goes with the others.
      if (kRows[i].reason == GpuReason::kCapabilityTooLow && facts.devices.size() < 2) continue;
      kRows[i].spoil(facts, request);
    }
    std::string why;
    EXPECT_EQ(JudgeGpu(request, {.local_rank = 1, .local_size = 2, .world = 2}, facts, &why), kRows[first].reason)
        << kRows[first].name << ": " << why;
  }
}

TEST(ChooseDevice, TheCpuNeedsNothing) {
  const auto choice = ChooseDevice({.kind = DeviceRequest::Kind::kCpu}, {}, GpuFacts{});
  ASSERT_TRUE(choice.ok());
  EXPECT_FALSE(choice->cuda);
  EXPECT_EQ(choice->why, "");
}

TEST(ChooseDevice, RanksTakeGpusByTheirPlaceOnTheMachine) {
  for (int local_rank = 0; local_rank < 6; ++local_rank) {
    const auto choice = ChooseDevice(kAuto, {.local_rank = local_rank, .local_size = 6, .world = 12}, Machine(4));
    ASSERT_TRUE(choice.ok());
    EXPECT_TRUE(choice->cuda);
    EXPECT_EQ(choice->index, local_rank % 4);
    EXPECT_EQ(choice->sharers, 2);
  }
  DeviceRequest third = kCuda;
  third.index = 2;
  EXPECT_EQ(ChooseDevice(third, {.local_rank = 1}, Machine(4))->index, 2);
}

// What is not needed may be missing.
TEST(ChooseDevice, CudnnAndNcclMayBeMissing) {
  GpuFacts facts = Machine(1);
  facts.cudnn_error = facts.nccl_error = "missing";
  EXPECT_TRUE(ChooseDevice(kCuda, {}, facts).ok());
}

TEST(ChooseDevice, OfADriverTheMajorVersionCounts) {
  GpuFacts facts = Machine(1);
  facts.module_cuda = 13020;
  facts.driver_cuda = 13000;
  EXPECT_TRUE(ChooseDevice(kCuda, {}, facts).ok());
}

TEST(ChooseDevice, AutoTakesTheCpuForWhatOnlyItDoes) {
  DeviceRequest request = kAuto;
  request.cpu_for = "--compute q8";
  const auto choice = ChooseDevice(request, {}, Machine(1));
  ASSERT_TRUE(choice.ok());
  EXPECT_FALSE(choice->cuda);
  EXPECT_EQ(choice->why, "--compute q8 is not for GPUs");
}

std::string Computes(const std::string& asked, const DeviceChoice& device, bool quantised) {
  const absl::StatusOr<ComputeMode> mode = ChooseCompute(asked, device, quantised);
  return mode.ok() ? std::string(Name(*mode)) : std::string(mode.status().message());
}

TEST(ChooseCompute, EachKindOfDeviceHasItsOwn) {
  const DeviceChoice gpu{.cuda = true, .index = 0, .reason = GpuReason::kNone, .why = ""};
  const DeviceChoice cpu{.cuda = false, .index = 0, .reason = GpuReason::kNone, .why = ""};
  EXPECT_EQ(Computes("", gpu, true), "bf16");
  EXPECT_EQ(Computes("bf16", gpu, false), "bf16");
  EXPECT_EQ(Computes("", cpu, true), "q8");
  EXPECT_EQ(Computes("", cpu, false), "f32");
  EXPECT_EQ(Computes("f32", cpu, true), "f32");
  EXPECT_EQ(Computes("q8", gpu, true),
            "--compute q8: a GPU computes in bf16; leave --compute out, or take the CPU with --device cpu");
  EXPECT_EQ(Computes("bf16", cpu, true), "--compute bf16: a CPU computes in f32 or q8, and bf16 is a GPU's");
  DeviceChoice fallen = cpu;
  fallen.why = "the driver shows no GPU";
  EXPECT_EQ(Computes("bf16", fallen, true),
            "--compute bf16: a CPU computes in f32 or q8, and bf16 is a GPU's; the driver shows no GPU");
}

TEST(ParseDevice, TakesFourForms) {
  EXPECT_EQ(ParseDevice("auto")->kind, DeviceRequest::Kind::kAuto);
  EXPECT_EQ(ParseDevice("cpu")->kind, DeviceRequest::Kind::kCpu);
  EXPECT_EQ(ParseDevice("cuda")->index, std::nullopt);
  EXPECT_EQ(ParseDevice("cuda:3")->index, 3);
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:-1", "cuda:1024", "cuda3", "cuda:1x", "CPU"}) {
    const auto request = ParseDevice(wrong);
    ASSERT_FALSE(request.ok()) << wrong;
    EXPECT_NE(std::string(request.status().message()).find(std::string("not ") + wrong), std::string::npos);
  }
}

DeviceChoice OnGpu() { return {.cuda = true, .index = 0, .reason = GpuReason::kNone, .why = ""}; }
DeviceChoice OnCpu(const std::string& why = "") {
  return {.cuda = false, .index = 0, .reason = GpuReason::kNoDevice, .why = why};
}

std::string Refusal(TransportKind kind, const DeviceChoice& device, const RankPlace& place, const GpuFacts& facts) {
  const auto choice = ChooseTransport(kind, device, place, facts);
  return choice.ok() ? "accepted" : std::string(choice.status().message());
}

TEST(ChooseTransport, AutoTakesTheShortestRoad) {
  const RankPlace eight{.local_rank = 0, .local_size = 8, .world = 16};
  const RankPlace one_machine{.local_rank = 0, .local_size = 8, .world = 8};
  const auto chosen = [](const DeviceChoice& device, const RankPlace& place, const GpuFacts& facts) {
    return ChooseTransport(TransportKind::kAuto, device, place, facts)->kind;
  };
  EXPECT_EQ(chosen(OnCpu(), eight, GpuFacts{}), TransportKind::kMpi);
  EXPECT_EQ(chosen(OnGpu(), {}, Machine(1)), TransportKind::kMpi) << "one rank talks to nobody";
  EXPECT_EQ(chosen(OnGpu(), eight, Machine(8)), TransportKind::kNccl);
  EXPECT_EQ(chosen(OnGpu(), one_machine, Machine(4)), TransportKind::kCudaIpc);
  EXPECT_EQ(chosen(OnGpu(), eight, Machine(4)), TransportKind::kMpi);
  // Each rank was started with a GPU of its own, which is all it sees.
  GpuFacts bound = Machine(1);
  EXPECT_EQ(chosen(OnGpu(), one_machine, bound), TransportKind::kCudaIpc);
  EXPECT_EQ(Refusal(TransportKind::kNccl, OnGpu(), eight, bound), "accepted") << "ranks compare their GPUs";
  bound.bound = true;
  EXPECT_EQ(chosen(OnGpu(), eight, bound), TransportKind::kNccl);
  GpuFacts no_nccl = Machine(8);
  no_nccl.nccl_error = "libnccl.so.2: cannot open";
  EXPECT_EQ(chosen(OnGpu(), one_machine, no_nccl), TransportKind::kCudaIpc);
  EXPECT_EQ(chosen(OnGpu(), eight, no_nccl), TransportKind::kMpi);
  EXPECT_NE(ChooseTransport(TransportKind::kAuto, OnGpu(), eight, no_nccl)->why.find("libnccl.so.2: cannot open"),
            std::string::npos);
}

TEST(ChooseTransport, RefusesWhatCannotBe) {
  const RankPlace place{.local_rank = 0, .local_size = 3, .world = 5};
  EXPECT_EQ(Refusal(TransportKind::kNccl, OnCpu(), place, GpuFacts{}), "--transport nccl: needs --device cuda");
  EXPECT_EQ(Refusal(TransportKind::kCudaIpc, OnCpu("the driver shows no GPU"), place, GpuFacts{}),
            "--transport cuda-ipc: the driver shows no GPU");
  EXPECT_EQ(Refusal(TransportKind::kNccl, OnGpu(), place, Machine(2)),
            "--transport nccl: 3 ranks on this machine share 2 GPUs, and NCCL takes one rank a GPU; use --transport "
            "cuda-ipc");
  EXPECT_EQ(Refusal(TransportKind::kCudaIpc, OnGpu(), place, Machine(3)),
            "--transport cuda-ipc: 3 of 5 ranks are on this machine, and cuda-ipc joins ranks of one; use --transport "
            "nccl");
  GpuFacts facts = Machine(3);
  facts.nccl_error = "libnccl.so.2: cannot open";
  EXPECT_EQ(Refusal(TransportKind::kNccl, OnGpu(), place, facts),
            "--transport nccl: NCCL is missing: libnccl.so.2: cannot open; install NCCL 2.28 or newer");
  EXPECT_EQ(Refusal(TransportKind::kMpi, OnGpu(), place, facts), "accepted");
  EXPECT_EQ(Refusal(TransportKind::kLoopback, OnGpu(), place, Machine(1)),
            "--transport loopback: ranks as threads compute on CPUs; use --device cpu, or mpirun");
  EXPECT_EQ(Refusal(TransportKind::kLoopback, OnCpu(), place, GpuFacts{}), "accepted");
}

TEST(ChooseTransport, NamesRoundTrip) {
  for (const char* name : {"auto", "loopback", "mpi", "nccl", "cuda-ipc"}) EXPECT_EQ(Name(*ParseTransport(name)), name);
  EXPECT_FALSE(ParseTransport("tcp").has_value());
}

}  // namespace
}  // namespace rondo::testing
