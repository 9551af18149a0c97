#include "cli/progress.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/duration.h"
#include "cli/show.h"

namespace rondo::cli {

std::string DescribeProgress(const v1::Progress& progress, uint64_t prompt_tokens) {
  switch (progress.phase()) {
    case v1::Progress::PREFILL: {
      // Floor, so that 100 % means done.
      std::string line = absl::StrFormat("prefill %d %%", static_cast<int>(progress.fraction() * 100));
      if (prompt_tokens > 0) {
        const uint64_t done = static_cast<uint64_t>(progress.fraction() * static_cast<double>(prompt_tokens));
        absl::StrAppend(&line, ", ", ShowCount(done), " of ", ShowCount(prompt_tokens), " tokens");
      }
      if (progress.tokens_per_s() > 0) absl::StrAppend(&line, ", ", ShowRate(progress.tokens_per_s()), " tokens/s");
      if (progress.eta_us() > 0) {
        absl::StrAppend(&line, ", ", ShowDuration(absl::Microseconds(progress.eta_us())), " left");
      }
      return line;
    }
    case v1::Progress::RESTARTING:
      return progress.message().empty() ? "restarting: the group was lost"
                                        : absl::StrCat("restarting: ", progress.message());
    default: {
      std::string line = absl::StrCat("queued, ", progress.queue_position(),
                                      progress.queue_position() == 1 ? " job ahead" : " jobs ahead");
      if (!progress.message().empty()) absl::StrAppend(&line, "; ", progress.message());
      return line;
    }
  }
}

ProgressLine ProgressLine::ForStderr(bool quiet) {
  const char* term = std::getenv("TERM");
  const bool terminal = isatty(STDERR_FILENO) != 0 && term != nullptr && std::strcmp(term, "dumb") != 0;
  const char* no_color = std::getenv("NO_COLOR");
  const bool color = terminal && (no_color == nullptr || *no_color == '\0');
  return ProgressLine(quiet ? Mode::kQuiet : terminal ? Mode::kLive : Mode::kPlain, color);
}

void ProgressLine::Show(std::string_view kind, const std::string& line, absl::Time now) {
  if (mode_ == Mode::kQuiet) return;
  const absl::Duration least = mode_ == Mode::kLive ? absl::Milliseconds(100) : absl::Seconds(3);
  if (kind == kind_ && now - last_ < least) return;
  kind_ = kind;
  last_ = now;
  if (mode_ == Mode::kPlain) {
    std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  // One line however narrow the terminal: no wrap while it is shown, or a return would not reach its beginning.
  std::fprintf(stderr, "\r\x1b[K\x1b[?7l%s%s%s\x1b[?7h", color_ ? "\x1b[36m" : "", line.c_str(),
               color_ ? "\x1b[0m" : "");
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::Note(const std::string& line) {
  Clear();
  if (mode_ != Mode::kQuiet) std::fprintf(stderr, "%s\n", line.c_str());
}

void ProgressLine::Clear() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  shown_ = false;
  kind_.clear();
}

}  // namespace rondo::cli
