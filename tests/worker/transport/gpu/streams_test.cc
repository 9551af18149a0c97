// A ring as GPU kernels run it: two buffers, computation on one while the next arrives in the other, and the host
// waiting for no data. The "kernels" of the fake run late by seed, so a missing wait shows as a wrong sum.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "absl/time/clock.h"
#include "tests/worker/transport/gpu/gpu_group.h"

namespace rondo::testing {
namespace {

constexpr size_t kFloats = 5000;
constexpr int kRounds = 6;  // times round the ring

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

float* Floats(const DeviceMemory& memory) { return reinterpret_cast<float*>(memory.bytes().data()); }

// Adds up every block that passes, each time scaled by the number of the step.
void RunRing(GpuGroup& group, DeviceTransport& t) {
  FakeCuda& cuda = *group.cuda[t.rank()];
  const int next = (t.rank() + 1) % t.world_size();
  const int previous = (t.rank() + t.world_size() - 1) % t.world_size();
  const int steps = kRounds * t.world_size();
  std::vector<double> sum(kFloats);
  CudaStream* const compute = cuda.MakeStream().value();
  const DeviceStream stream{compute};
  {
    std::unique_ptr<DeviceMemory> kv[2];
    for (auto& buffer : kv) {
      auto made = t.Allocate(kFloats * sizeof(float), Soon());
      ASSERT_TRUE(made.ok()) << made.status();
      buffer = *std::move(made);
    }
    // Written by a kernel, so that the first send has something to wait for as well.
    cuda.Enqueue(compute, [out = Floats(*kv[0]), rank = t.rank()](const std::atomic<bool>&) {
      for (size_t i = 0; i < kFloats; ++i) out[i] = static_cast<float>(rank * 10000 + i);
    });
    for (int step = 0; step < steps; ++step) {
      const float* const held = Floats(*kv[step % 2]);
      Transport::Pending pending;
      const bool last = step + 1 == steps;
      if (!last) {
        ASSERT_TRUE(t.StartAfter(stream).ok());
        const auto posted = t.SendRecv(next, kv[step % 2]->bytes(), previous, kv[(step + 1) % 2]->bytes());
        ASSERT_TRUE(posted.ok()) << posted.status();
        pending = *posted;
      }
      cuda.Enqueue(compute, [held, step, &sum](const std::atomic<bool>&) {
        for (size_t i = 0; i < kFloats; ++i) sum[i] += double{held[i]} * (step + 1);
      });
      if (last) break;
      const auto got = t.WaitOn(stream, pending, Soon());
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(*got, kFloats * sizeof(float));
    }
    cuda.Drop(compute);  // what is on it is done
  }
  for (size_t i = 0; i < kFloats; ++i) {
    double want = 0;
    for (int step = 0; step < steps; ++step) {
      const int origin = (t.rank() + steps - step) % t.world_size();
      want += static_cast<double>(origin * 10000 + static_cast<int>(i)) * (step + 1);
    }
    ASSERT_EQ(sum[i], want) << "rank " << t.rank() << ", element " << i;
  }
}

struct Road {
  const char* name;
  GpuGroup::Make make;
};
class Streams : public ::testing::TestWithParam<Road> {};
INSTANTIATE_TEST_SUITE_P(Roads, Streams,
                         ::testing::Values(Road{"Nccl", MakeNccl}, Road{"CudaIpc", MakeIpc},
                                           Road{"Staged", MakeStaged}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Streams, RingOfFour) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    GpuGroup group(4, 4, seed);
    group.Run(GetParam().make, [&](DeviceTransport& t) {
      RunRing(group, t);
      const absl::Status closed = t.Close(Soon());
      EXPECT_TRUE(closed.ok()) << closed;
    });
    EXPECT_EQ(group.nccl.open_comms(), 0);
    // Everything was given back: streams, events, memory.
    for (const auto& cuda : group.cuda) EXPECT_EQ(cuda->open_things(), 0u);
    if (std::string(GetParam().name) == "Nccl") {
      EXPECT_GE(group.nccl.groups(), 4 * (kRounds * 4 - 1));
      EXPECT_GT(group.nccl.in_progress_answers(), 10) << "calls that stay in progress were not met";
    }
  }
}

// WaitOn gives the wait to the GPU, and the deadline goes on: data that is late fails the transport.
TEST_P(Streams, DataThatIsLateAfterWaitOnFailsTheTransport) {
  GpuGroup group(2, 2, 3);
  std::atomic<bool> release{false};
  group.Run(GetParam().make, [&](DeviceTransport& t) {
    FakeCuda& cuda = *group.cuda[t.rank()];
    CudaStream* const compute = cuda.MakeStream().value();
    {
      std::byte* const memory = cuda.MakeMemory(1000).value();
      // Rank 0's kernel does not end, so what it sends does not leave.
      if (t.rank() == 0) {
        cuda.Enqueue(compute, [&](const std::atomic<bool>&) {
          while (!release) absl::SleepFor(absl::Milliseconds(1));
        });
      }
      ASSERT_TRUE(t.StartAfter({compute}).ok());
      const auto posted = t.rank() == 0 ? t.SendRecv(1, {memory, 1000}, Transport::kNobody, {})
                                        : t.SendRecv(Transport::kNobody, {}, 0, {memory, 1000});
      ASSERT_TRUE(posted.ok()) << posted.status();
      const absl::Time soon = absl::Now() + absl::Milliseconds(300);
      (void)t.WaitOn({compute}, *posted, soon);
      absl::Status status;
      while (status.ok() && absl::Now() < soon + absl::Seconds(30)) {
        status = t.SendRecv(Transport::kNobody, {}, Transport::kNobody, {}).status();
        absl::SleepFor(absl::Milliseconds(5));
        release = !status.ok();
      }
      EXPECT_NE(std::string(status.message()).find("before the deadline"), std::string::npos) << status;
    }
    cuda.Drop(compute);
  });
}

}  // namespace
}  // namespace rondo::testing
