#include "cli/duration.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"

namespace rondo::cli {

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  absl::Duration duration;
  double seconds = 0;
  if (absl::SimpleAtod(Sv(text), &seconds)) {
    duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(Sv(text), &duration)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Sv(text), "' is not a duration; write it like 90s, 10m or 1h30m"));
  }
  if (!(duration > absl::ZeroDuration()) || duration == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(absl::StrCat("the duration '", Sv(text), "' is not positive and finite"));
  }
  return duration;
}

std::string ShowDuration(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 10) return absl::StrFormat("%.1f s", seconds < 0 ? 0 : seconds);
  const int64_t whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return absl::StrFormat("%d s", whole);
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %02d min", whole / 3600, whole % 3600 / 60);
}

}  // namespace rondo::cli
