// Durations as people type them, for --deadline and the like.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace rondo::cli {

// "10m", "90s", "1h30m", "1.5h", "250ms", or a bare number of seconds. INVALID_ARGUMENT unless it is positive and
// finite.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);

// Two units at most: "0.4 s", "12 s", "3 min 05 s", "2 h 10 min".
std::string ShowDuration(absl::Duration duration);

}  // namespace rondo::cli
