// The numbered commands of one epoch as they arrive at one rank: filled by the connection, emptied by the step loop.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/session/command.h"

namespace rondo {

// Any thread.
class CommandQueue {
 public:
  // INTERNAL when the number is not the next one.
  absl::Status Push(Command command);

  // No command will follow; waiters return. The first call counts.
  void Close(absl::Status reason);

  // Sleeps until a command is queued (OK) or, with none left, the queue is closed (its reason).
  absl::Status WaitForAny();

  // Highest number queued so far.
  uint64_t LastNumber() const;

  // Takes every command up to `number`, waiting for those that have not arrived yet.
  absl::StatusOr<std::vector<Command>> TakeThrough(uint64_t number, absl::Time deadline);

  bool closed() const;
  // OK while the queue is open.
  absl::Status close_reason() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Command> commands_;
  uint64_t last_number_ = 0;
  std::optional<absl::Status> closed_;
};

}  // namespace rondo
