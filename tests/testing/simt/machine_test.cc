// The emulated machine finds what goes wrong in kernels: each test plants one mistake and reads the report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "tests/testing/simt/launch.h"

namespace rondo {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string LineAfter(int line) { return "machine_test.cc:" + std::to_string(line + 1); }

TEST(Machine, RunsEveryThreadOfEveryCta) {
  std::vector<int> seen(3 * 64, 0);
  const simt::Report report = simt::Launch(
      3, 64, 0, {}, [&] { gpu::Store(&seen[gpu::CtaIndex() * 64 + gpu::ThreadIndex()], gpu::CtaCount()); });
  EXPECT_EQ(report.fault, "");
  EXPECT_EQ(seen, std::vector<int>(3 * 64, 3));
}

TEST(Machine, BarrierOrdersWarpsUnderEverySchedule) {
  for (const simt::Options& options : simt::AllSchedules(5)) {
    std::vector<int> sums(128, 0);
    const simt::Report report = simt::Launch(1, 128, 128 * 4, options, [&] {
      const int me = gpu::ThreadIndex();
      gpu::StoreShared(4 * me, me);
      gpu::CtaSync();
      for (int i = 0; i < 128; ++i) sums[me] += gpu::LoadShared<int>(4 * i);
    });
    EXPECT_EQ(report.fault, "");
    EXPECT_EQ(sums, std::vector<int>(128, 127 * 64));
  }
}

TEST(Machine, ShuffleAndVoteReachTheWholeWarp) {
  std::vector<int> from(64), any(64);
  const simt::Report report = simt::Launch(1, 64, 0, {.schedule = simt::Schedule::kRandom}, [&] {
    const int me = gpu::ThreadIndex();
    from[me] = gpu::ShuffleXor(me, 5);
    any[me] = gpu::WarpAny(me == 40);
  });
  EXPECT_EQ(report.fault, "");
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(from[i], i ^ 5);
    EXPECT_EQ(any[i], i >= 32);
  }
}

TEST(Machine, CtaSyncOrIsOfThisCallAlone) {
  std::vector<int> answers;
  const simt::Report report = simt::Launch(1, 64, 0, {.schedule = simt::Schedule::kGreedy}, [&] {
    for (int round = 0; round < 4; ++round) {
      const bool answer = gpu::CtaSyncOr(round % 2 == 1 && gpu::ThreadIndex() == 63);
      gpu::CtaSync();
      if (gpu::ThreadIndex() == 0) answers.push_back(answer);
    }
  });
  EXPECT_EQ(report.fault, "");
  EXPECT_THAT(answers, testing::ElementsAre(0, 1, 0, 1));
}

TEST(Machine, DeadlockNamesEveryPlaceWhereThreadsWait) {
  const int line = __LINE__;
  const auto kernel = [] {
    if (gpu::ThreadIndex() < 32) return;
    if (gpu::ThreadIndex() < 64) gpu::NamedBarrierSync(3, 64);
    gpu::CtaSync();
  };
  EXPECT_THAT(
      simt::Launch(1, 128, 0, {}, kernel).fault,
      AllOf(HasSubstr("deadlock in CTA 0"), HasSubstr("32 threads wait in NamedBarrierSync at " + LineAfter(line + 2)),
            HasSubstr("64 threads wait in CtaSync at " + LineAfter(line + 3)), HasSubstr("32 threads have ended")));
}

TEST(Machine, DivergentCollectiveNamesBothPlaces) {
  const int line = __LINE__;
  const auto kernel = [] {
    if (gpu::LaneIndex() % 2 == 0) {
      gpu::ShuffleXor(1, 1);
    } else {
      gpu::WarpSync();
    }
  };
  EXPECT_THAT(simt::Launch(1, 32, 0, {}, kernel).fault,
              AllOf(HasSubstr("divergent collective"), HasSubstr("ShuffleXor at " + LineAfter(line + 2)),
                    HasSubstr("WarpSync at " + LineAfter(line + 4)), HasSubstr("thread 1")));
}

TEST(Machine, ReadBesideAMissingBarrierIsARace) {
  const int line = __LINE__;
  const auto kernel = [] {
    if (gpu::ThreadIndex() == 0) gpu::StoreShared(16, 1.0f);
    if (gpu::ThreadIndex() == 32) gpu::LoadShared<float>(16);
  };
  EXPECT_THAT(
      simt::Launch(1, 64, 64, {}, kernel).fault,
      AllOf(HasSubstr("race: read of shared address 16"), HasSubstr("written by warp 0"),
            HasSubstr("StoreShared at " + LineAfter(line + 1)), HasSubstr("LoadShared at " + LineAfter(line + 2))));
  // The other order is a race as well.
  EXPECT_THAT(simt::Launch(1, 64, 64, {.schedule = simt::Schedule::kDescending}, kernel).fault,
              HasSubstr("race: write of shared address 16"));
}

TEST(Machine, OverwrittenBufferIsARace) {
  // A ring of one buffer, with the barrier after the reads forgotten.
  const auto kernel = [] {
    for (int round = 0; round < 2; ++round) {
      if (gpu::ThreadIndex() < 32) gpu::StoreShared(4 * gpu::LaneIndex(), round);
      gpu::CtaSync();
      if (gpu::ThreadIndex() >= 32) gpu::LoadShared<int>(4 * gpu::LaneIndex());
    }
  };
  for (const simt::Options& options : simt::AllSchedules(1)) {
    EXPECT_THAT(simt::Launch(1, 64, 128, options, kernel).fault, HasSubstr("race"));
  }
}

TEST(Machine, SharedMemoryBeginsAsNaN) {
  float read = 0;
  EXPECT_EQ(simt::Launch(1, 32, 64, {}, [&] { read = gpu::LoadShared<float>(32); }).fault, "");
  EXPECT_TRUE(std::isnan(read));
}

TEST(Machine, CopyIsNaNUntilWaitedFor) {
  alignas(16) const float source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float early = 0, late = 0, zero = 1;
  const auto kernel = [&] {
    if (gpu::ThreadIndex() != 0) return;
    gpu::CopyAsync16(0, source, true);
    gpu::CopyAsync16(32, source, false);
    gpu::CommitCopies();
    gpu::CopyAsync16(16, source + 4, true);
    gpu::CommitCopies();
    gpu::WaitCopies<1>();
    early = gpu::LoadShared<float>(16);
    late = gpu::LoadShared<float>(4);
    zero = gpu::LoadShared<float>(32);
    gpu::WaitCopies<0>();
  };
  EXPECT_EQ(simt::Launch(1, 32, 64, {.slow_copies = true}, kernel).fault, "");
  EXPECT_TRUE(std::isnan(early));
  EXPECT_EQ(late, 2);
  EXPECT_EQ(zero, 0);
  EXPECT_EQ(simt::Launch(1, 32, 64, {.slow_copies = false}, kernel).fault, "");
  EXPECT_EQ(early, 5);
}

TEST(Machine, SharedAccessIsCheckedForRangeAndAlignment) {
  EXPECT_THAT(simt::Launch(1, 32, 64, {}, [] { gpu::LoadShared<float>(64); }).fault,
              HasSubstr("shared address 64 + 4 is beyond the 64 bytes"));
  EXPECT_THAT(simt::Launch(1, 32, 64, {}, [] { gpu::LoadShared<float>(2); }).fault,
              HasSubstr("shared address 2 is not a multiple of 4"));
  alignas(16) static const float source[8] = {};
  EXPECT_THAT(simt::Launch(1, 32, 64, {}, [] { gpu::CopyAsync16(8, source, true); }).fault,
              HasSubstr("shared address 8 is not a multiple of 16"));
}

TEST(Machine, GlobalAccessIsCheckedForRangeAlignmentAndPurpose) {
  alignas(16) static float data[8] = {};
  const simt::Options options = {.memory = {{data, sizeof data, false, "data"}}};
  EXPECT_EQ(simt::Launch(1, 32, 64, options, [] { gpu::Load(&data[7]); }).fault, "");
  EXPECT_THAT(simt::Launch(1, 32, 64, options, [] { gpu::Load(&data[8]); }).fault,
              HasSubstr("out of range: byte 32 of the 32 of data"));
  EXPECT_THAT(simt::Launch(1, 32, 64, options, [] { gpu::Store(&data[0], 1.0f); }).fault,
              HasSubstr("write to data, which is input"));
  EXPECT_THAT(simt::Launch(1, 32, 64, options, [] { gpu::CopyAsync16(0, &data[1], true); }).fault,
              HasSubstr("global address is not a multiple of 16"));
  EXPECT_EQ(
      simt::Launch(1, 32, 64, options, [] { gpu::CopyAsync16(16 * gpu::LaneIndex() % 64, &data[8], false); }).fault,
      "");
}

TEST(Machine, NamedBarrierCountsThoseThatOnlyArrive) {
  for (const simt::Options& options : simt::AllSchedules(9)) {
    std::vector<int> value(1, 0);
    int read = 0;
    const auto kernel = [&] {
      if (gpu::ThreadIndex() < 32) {
        if (gpu::ThreadIndex() == 0) value[0] = 7;
        gpu::WarpSync();
        gpu::NamedBarrierArrive(1, 64);
      } else {
        gpu::NamedBarrierSync(1, 64);
        if (gpu::ThreadIndex() == 32) read = value[0];
      }
    };
    EXPECT_EQ(simt::Launch(1, 64, 0, options, kernel).fault, "");
    EXPECT_EQ(read, 7);
  }
}

}  // namespace
}  // namespace rondo
