#include "worker/session/command_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rondo {

absl::Status CommandQueue::Push(Command command) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (command.number != last_number_ + 1) {
    return absl::InternalError(
        absl::StrCat("command number ", command.number, " arrived, expected ", last_number_ + 1));
  }
  last_number_ = command.number;
  commands_.push_back(std::move(command));
  changed_.notify_all();
  return absl::OkStatus();
}

void CommandQueue::Close(absl::Status reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_) closed_ = std::move(reason);
  changed_.notify_all();
}

absl::Status CommandQueue::WaitForAny() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !commands_.empty(); });
  return commands_.empty() ? *closed_ : absl::OkStatus();
}

uint64_t CommandQueue::LastNumber() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return last_number_;
}

bool CommandQueue::closed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return closed_.has_value();
}

absl::Status CommandQueue::close_reason() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return closed_.value_or(absl::OkStatus());
}

absl::StatusOr<std::vector<Command>> CommandQueue::TakeThrough(uint64_t number, absl::Time deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  const bool arrived =
      changed_.wait_until(lock, absl::ToChronoTime(deadline), [&] { return closed_ || last_number_ >= number; });
  if (last_number_ < number) {
    if (arrived) return *closed_;
    return absl::DeadlineExceededError(
        absl::StrCat("rank 0 has taken command ", number, ", but only ", last_number_, " arrived here"));
  }
  std::vector<Command> taken;
  while (!commands_.empty() && commands_.front().number <= number) {
    taken.push_back(std::move(commands_.front()));
    commands_.pop_front();
  }
  return taken;
}

}  // namespace rondo
