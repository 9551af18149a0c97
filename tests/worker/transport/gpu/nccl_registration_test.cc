// Memory that ranks send and receive is registered with NCCL once, and deregistered before it is freed and before the
// communicator ends. The fake notes memory that is freed or left registered, and registered twice.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>

#include "absl/time/clock.h"
#include "tests/worker/transport/gpu/gpu_group.h"

namespace rondo::testing {
namespace {

constexpr int kWorld = 3;
constexpr size_t kPiece = 1000;

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

// Sends a piece of `out` to the next rank and gets the previous one's into `in`, and looks at it.
void PassOn(DeviceTransport& t, std::byte* out, std::byte* in, int round) {
  const int next = (t.rank() + 1) % kWorld, previous = (t.rank() + kWorld - 1) % kWorld;
  std::memset(out, 16 * round + t.rank(), kPiece);
  const auto posted = t.SendRecv(next, {out, kPiece}, previous, {in, kPiece});
  ASSERT_TRUE(posted.ok()) << posted.status();
  const auto got = t.Wait(*posted, Soon());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(in[0], static_cast<std::byte>(16 * round + previous));
  EXPECT_EQ(in[kPiece - 1], in[0]);
}

TEST(NcclRegistration, AllocationsAreRegisteredOnceHoweverManyPiecesOfThemTravel) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    GpuGroup group(kWorld, kWorld, seed);
    group.Run(MakeNccl, [&](DeviceTransport& t) {
      FakeCuda& cuda = *group.cuda[t.rank()];
      std::byte* const out = cuda.MakeMemory(4 * kPiece).value();
      std::byte* const in = cuda.MakeMemory(4 * kPiece).value();
      for (int round = 0; round < 8; ++round) PassOn(t, out + round % 4 * kPiece, in + round % 3 * kPiece, round);
      ASSERT_TRUE(t.Close(Soon()).ok());
      cuda.DropMemory(out);
      cuda.DropMemory(in);
    });
    EXPECT_EQ(group.nccl.registrations(), 2 * kWorld);
  }
}

TEST(NcclRegistration, MemoryThatIsFreedIsForgottenFirstAndRegisteredAnew) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    GpuGroup group(kWorld, kWorld, seed);
    group.Run(MakeNccl, [&](DeviceTransport& t) {
      FakeCuda& cuda = *group.cuda[t.rank()];
      std::byte* const in = cuda.MakeMemory(kPiece).value();
      for (int round = 0; round < 3; ++round) {
        std::byte* const out = cuda.MakeMemory(kPiece * (1 + round)).value();
        PassOn(t, out, in, round);
        EXPECT_TRUE(t.Forget(out, Soon()).ok());
        cuda.DropMemory(out);
      }
      std::byte* const never_sent = cuda.MakeMemory(kPiece).value();
      EXPECT_TRUE(t.Forget(never_sent, Soon()).ok());
      ASSERT_TRUE(t.Close(Soon()).ok());
    });
    EXPECT_EQ(group.nccl.registrations(), (1 + 3) * kWorld);
  }
}

TEST(NcclRegistration, MemoryOfTheTransportsOwnIsNotRegisteredTwice) {
  GpuGroup group(kWorld, kWorld, 1);
  group.Run(MakeNccl, [&](DeviceTransport& t) {
    {
      const auto buffers = t.Allocate(2 * kPiece, Soon());
      ASSERT_TRUE(buffers.ok()) << buffers.status();
      std::byte* const memory = (*buffers)->bytes().data();
      for (int round = 0; round < 4; ++round) PassOn(t, memory, memory + kPiece, round);
    }
    ASSERT_TRUE(t.Close(Soon()).ok());
  });
  EXPECT_EQ(group.nccl.registrations(), kWorld);
}

TEST(NcclRegistration, MemoryThatCannotBeRegisteredTravelsAllTheSame) {
  GpuGroup group(kWorld, kWorld, 1);
  group.nccl.refuses_registration = true;
  group.Run(MakeNccl, [&](DeviceTransport& t) {
    FakeCuda& cuda = *group.cuda[t.rank()];
    std::byte* const out = cuda.MakeMemory(kPiece).value();
    std::byte* const in = cuda.MakeMemory(kPiece).value();
    for (int round = 0; round < 4; ++round) PassOn(t, out, in, round);
    EXPECT_TRUE(t.Forget(out, Soon()).ok());
    ASSERT_TRUE(t.Close(Soon()).ok());
  });
  EXPECT_EQ(group.nccl.registrations(), 0);
}

TEST(NcclRegistration, AnAbortEndsRegistrationsWithTheCommunicator) {
  GpuGroup group(kWorld, kWorld, 1);
  std::barrier all_passed(kWorld);  // an abort would also end what others have not yet got
  group.Run(MakeNccl, [&](DeviceTransport& t) {
    FakeCuda& cuda = *group.cuda[t.rank()];
    std::byte* const out = cuda.MakeMemory(kPiece).value();
    std::byte* const in = cuda.MakeMemory(kPiece).value();
    PassOn(t, out, in, 0);
    all_passed.arrive_and_wait();
    if (t.rank() == 1) t.Abort(absl::InternalError("enough"));
    const auto posted = t.SendRecv(Transport::kNobody, {}, (t.rank() + 1) % kWorld, {in, kPiece});
    if (posted.ok()) {
      EXPECT_FALSE(t.Wait(*posted, Soon()).ok());
    }
    EXPECT_TRUE(t.Forget(out, Soon()).ok());
    cuda.DropMemory(out);
  });
  EXPECT_EQ(group.nccl.registrations(), 2 * kWorld);
}

}  // namespace
}  // namespace rondo::testing
