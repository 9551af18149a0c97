// What a rank has to say and has not sent yet: bounded, so that a coordinator that stops reading cannot fill the rank's
// memory. Filled by the step loop and the heartbeat, emptied by the writing thread of worker/rpc/group_client.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "absl/time/time.h"
#include "rondo/v1/group.pb.h"

namespace rondo {

struct OutboxLimits {
  uint64_t bytes = 64 << 20;                    // more than a hundred steps of the largest vocabularies' logits
  absl::Duration patience = absl::Seconds(10);  // for room; a coordinator that syncs its journal is back well before
};

// Any thread.
class Outbox {
 public:
  explicit Outbox(OutboxLimits limits) : limits_(limits) {}

  // Waits for room, at most limits.patience; false if there was none. A message larger than the limit passes alone.
  // Once closed, messages are dropped (true).
  bool Put(v1::RankMessage message);

  // The next message; sleeps until there is one. Nothing: closed, and all are out.
  std::optional<v1::RankMessage> Take();

  // Nothing more is taken in; what is inside is still to be had. Wakes all.
  void Close();

  const OutboxLimits& limits() const { return limits_; }

 private:
  const OutboxLimits limits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::RankMessage> messages_;
  uint64_t bytes_ = 0;  // of messages_
  bool closed_ = false;
};

}  // namespace rondo
