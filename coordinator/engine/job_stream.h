// The mailbox between the engine and the service thread that serves one client. It never blocks the engine: progress
// is merged, tokens are four bytes each and at most max_tokens, and logits are bounded by bytes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "coordinator/core/action.h"

namespace rondo::coordinator {

class JobStream {
 public:
  // What came since the last Wait; a client hears the parts in this order.
  struct Batch {
    std::optional<AcceptedNote> accepted;
    std::optional<ProgressNote> restarting;
    std::optional<ProgressNote> progress;  // the latest; older ones were merged into it
    std::deque<LogitsNote> logits;
    std::vector<int32_t> tokens;
    std::optional<OpenedNote> opened;
    std::optional<RanNote> ran;
    std::optional<ClosedNote> closed;
    bool empty() const {
      return !accepted && !restarting && !progress && logits.empty() && tokens.empty() && !opened && !ran && !closed;
    }
  };

  explicit JobStream(uint64_t logits_limit_bytes) : logits_limit_(logits_limit_bytes) {}

  // Engine side. False: so many logits wait for a slow reader that the limit is passed; this note was dropped.
  bool Push(decltype(JobNote::body) note);

  // Client side: returns what is there, waiting at most `timeout` for something.
  Batch Wait(std::chrono::milliseconds timeout);

 private:
  const uint64_t logits_limit_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Batch pending_;
  uint64_t logits_bytes_ = 0;
};

}  // namespace rondo::coordinator
