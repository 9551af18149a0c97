#include "cli/duration.h"

#include <gtest/gtest.h>

namespace rondo::cli {
namespace {

TEST(ParseDuration, ReadsWhatPeopleType) {
  EXPECT_EQ(*ParseDuration("10m"), absl::Minutes(10));
  EXPECT_EQ(*ParseDuration("90s"), absl::Seconds(90));
  EXPECT_EQ(*ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("250ms"), absl::Milliseconds(250));
  EXPECT_EQ(*ParseDuration("2.5"), absl::Milliseconds(2500));
}

TEST(ParseDuration, RefusesWhatIsNoTimeToWait) {
  for (const char* text : {"", "soon", "10 minutes", "-5s", "0", "inf", "nan", "-1", "10mm"}) {
    const auto duration = ParseDuration(text);
    EXPECT_EQ(duration.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ShowDuration, HasTwoUnitsAtMost) {
  EXPECT_EQ(ShowDuration(absl::Milliseconds(420)), "0.4 s");
  EXPECT_EQ(ShowDuration(absl::Seconds(12)), "12 s");
  EXPECT_EQ(ShowDuration(absl::Milliseconds(59600)), "1 min 00 s");
  EXPECT_EQ(ShowDuration(absl::Seconds(185)), "3 min 05 s");
  EXPECT_EQ(ShowDuration(absl::Minutes(130)), "2 h 10 min");
}

}  // namespace
}  // namespace rondo::cli
