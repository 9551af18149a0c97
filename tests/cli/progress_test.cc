#include "cli/progress.h"

#include <gtest/gtest.h>

namespace rondo::cli {
namespace {

TEST(DescribeProgress, PrefillShowsWhereItIsAndHowLong) {
  v1::Progress progress;
  progress.set_phase(v1::Progress::PREFILL);
  progress.set_fraction(0.42);
  progress.set_tokens_per_s(612.4);
  progress.set_eta_us(5'400'000);
  EXPECT_EQ(DescribeProgress(progress, 5752), "prefill 42 %, 2,415 of 5,752 tokens, 612 tokens/s, 5.4 s left");
  progress.set_fraction(0.999);
  EXPECT_EQ(DescribeProgress(progress, 0).substr(0, 12), "prefill 99 %");
}

TEST(DescribeProgress, QueueAndRestart) {
  v1::Progress progress;
  progress.set_queue_position(1);
  EXPECT_EQ(DescribeProgress(progress, 10), "queued, 1 job ahead");
  progress.set_queue_position(2);
  EXPECT_EQ(DescribeProgress(progress, 10), "queued, 2 jobs ahead");
  progress.set_phase(v1::Progress::RESTARTING);
  progress.set_message("rank 2 is silent");
  EXPECT_EQ(DescribeProgress(progress, 10), "restarting: rank 2 is silent");
}

TEST(ProgressLine, PlainLinesAreRareAndAChangeIsShown) {
  ProgressLine line(ProgressLine::Mode::kPlain, false);
  const absl::Time start = absl::UnixEpoch();
  testing::internal::CaptureStderr();
  line.Show("prefill", "a", start);
  line.Show("prefill", "b", start + absl::Seconds(1));
  line.Show("prefill", "c", start + absl::Seconds(3));
  line.Show("restart", "d", start + absl::Seconds(3));
  line.Clear();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "a\nc\nd\n");
}

TEST(ProgressLine, LiveLineIsTakenAwayAndColourIsOptional) {
  ProgressLine plain(ProgressLine::Mode::kLive, false);
  testing::internal::CaptureStderr();
  plain.Show("prefill", "half", absl::UnixEpoch());
  plain.Clear();
  plain.Clear();
  const std::string out = testing::internal::GetCapturedStderr();
  EXPECT_EQ(out, "\r\x1b[K\x1b[?7lhalf\x1b[?7h\r\x1b[K");
  ProgressLine color(ProgressLine::Mode::kLive, true);
  testing::internal::CaptureStderr();
  color.Show("prefill", "half", absl::UnixEpoch());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("\x1b[36mhalf\x1b[0m"), std::string::npos);
}

}  // namespace
}  // namespace rondo::cli
