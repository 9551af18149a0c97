#include "base/log.h"

#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace rondo {
namespace {

struct LogState {
  std::mutex mutex;
  std::string role = "rondo";
};

LogState& State() {
  static LogState* state = new LogState;  // never destroyed: threads may log during exit
  return *state;
}

LogLevel Threshold() {
  static const LogLevel level = [] {
    const char* env = std::getenv("RONDO_LOG");
    const std::string_view text = env == nullptr ? "info" : env;
    if (text == "debug") return LogLevel::kDebug;
    if (text == "warning") return LogLevel::kWarning;
    if (text == "error") return LogLevel::kError;
    return LogLevel::kInfo;
  }();
  return level;
}

constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};

}  // namespace

void SetLogRole(std::string role) {
  std::lock_guard<std::mutex> lock(State().mutex);
  State().role = std::move(role);
}

bool LogEnabled(LogLevel level) { return level >= Threshold(); }

void WriteLog(LogLevel level, std::string_view message) {
  const std::string time = absl::FormatTime("%H:%M:%E3S", absl::Now(), absl::LocalTimeZone());
  std::lock_guard<std::mutex> lock(State().mutex);
  const std::string line =
      absl::StrCat(time, " ", State().role, " ", Sv(kNames[static_cast<int>(level)]), ": ", Sv(message), "\n");
  // A log line that cannot be written has nowhere else to go.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace rondo
