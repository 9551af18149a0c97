#include "worker/rpc/outbox.h"

#include <utility>

namespace rondo {

bool Outbox::Put(v1::RankMessage message) {
  const uint64_t bytes = message.ByteSizeLong();
  std::unique_lock<std::mutex> lock(mutex_);
  const bool room = changed_.wait_for(lock, absl::ToChronoNanoseconds(limits_.patience),
                                      [&] { return closed_ || messages_.empty() || bytes_ + bytes <= limits_.bytes; });
  if (!room) return false;
  if (closed_) return true;
  bytes_ += bytes;
  messages_.push_back(std::move(message));
  changed_.notify_all();
  return true;
}

std::optional<v1::RankMessage> Outbox::Take() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !messages_.empty(); });
  if (messages_.empty()) return std::nullopt;
  v1::RankMessage message = std::move(messages_.front());
  messages_.pop_front();
  bytes_ -= message.ByteSizeLong();
  changed_.notify_all();
  return message;
}

void Outbox::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace rondo
