// Progress on stderr while a job waits and prefills: one live line on a terminal, a plain line every few seconds else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "rondo/v1/inference.pb.h"

namespace rondo::cli {

// "prefill 42 %, 2,416 of 5,752 tokens, 612 tokens/s, 5.4 s left"; "queued, 2 jobs ahead"; "restarting: MESSAGE".
std::string DescribeProgress(const v1::Progress& progress, uint64_t prompt_tokens);

class ProgressLine {
 public:
  enum class Mode { kLive, kPlain, kQuiet };

  // Live only where stderr is a terminal that is not TERM=dumb. NO_COLOR turns colour off, not the live line.
  static ProgressLine ForStderr(bool quiet);

  ProgressLine(Mode mode, bool color) : mode_(mode), color_(color) {}

  // `kind` names what the line is about ("prefill"): a change of kind is always shown, the rest no more often than ten
  // times a second on a terminal and every 3 s elsewhere.
  void Show(std::string_view kind, const std::string& line, absl::Time now);

  // A line that stays. Ends the live line first.
  void Note(const std::string& line);

  // Takes the live line away, before anything else is written to the terminal.
  void Clear();

 private:
  Mode mode_;
  bool color_;
  bool shown_ = false;
  std::string kind_;
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace rondo::cli
