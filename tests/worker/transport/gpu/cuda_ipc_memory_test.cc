// Memory that a rank sent over CUDA IPC may not be freed while the transport lives, as its receivers keep it open; any
// other may.
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/worker/transport/gpu/gpu_group.h"

namespace rondo::testing {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

TEST(CudaIpcMemory, WhatWasSentStaysUntilTheTransportEnds) {
  constexpr size_t kBytes = 1000;
  for (const bool one_process : {false, true}) {
    GpuGroup group(2, 1, 1, one_process);
    group.Run(MakeIpc, [&](DeviceTransport& t) {
      FakeCuda& cuda = *group.cuda[t.rank()];
      std::byte* const out = cuda.MakeMemory(2 * kBytes).value();
      std::byte* const in = cuda.MakeMemory(kBytes).value();
      const auto posted = t.SendRecv(1 - t.rank(), {out + kBytes, kBytes}, 1 - t.rank(), {in, kBytes});
      ASSERT_TRUE(posted.ok() && t.Wait(*posted, Soon()).ok());
      EXPECT_TRUE(t.Forget(in, Soon()).ok());
      // Ranks of one process read each other's memory as it is, and are through with it.
      const absl::Status sent = t.Forget(out, Soon());
      EXPECT_EQ(sent.ok(), one_process) << sent;
      ASSERT_TRUE(t.Close(Soon()).ok());
      cuda.DropMemory(in);
    });
  }
}

}  // namespace
}  // namespace rondo::testing
