// Log lines for people who run clusters: one line each on stderr, with level, time, process role and message.
#pragma once

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace rondo {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Sets the word in front of each line, e.g. "worker 2". Call once at start.
void SetLogRole(std::string role);

// Lines below this level are dropped. Default kInfo, or RONDO_LOG=debug|info|warning|error.
bool LogEnabled(LogLevel level);

// Writes one line with a single write(2), so that lines of several ranks do not mix. Any thread.
void WriteLog(LogLevel level, std::string_view message);

template <typename... Parts>
void Log(LogLevel level, const Parts&... parts) {
  if (LogEnabled(level)) WriteLog(level, absl::StrCat(StrCatPart(parts)...));
}
template <typename... Parts>
void LogInfo(const Parts&... parts) {
  Log(LogLevel::kInfo, parts...);
}
template <typename... Parts>
void LogWarning(const Parts&... parts) {
  Log(LogLevel::kWarning, parts...);
}
template <typename... Parts>
void LogError(const Parts&... parts) {
  Log(LogLevel::kError, parts...);
}

}  // namespace rondo
