// Whether the client of an open attention job is gone: its upload broke off and it did not come back. One for each job
// and rank, in AttentionTensors.
#pragma once

#include <mutex>

#include "absl/time/time.h"

namespace rondo {

// Any thread.
class UploadWatch {
 public:
  // A client whose connection broke has this long to upload on; one that was killed never will.
  static constexpr absl::Duration kReturn = absl::Seconds(3);

  void Began() {
    const std::lock_guard lock(mutex_);
    ++open_;
    broke_ = absl::InfiniteFuture();
  }

  // `broken`: not by the client's own word.
  void Ended(bool broken, absl::Time now) {
    const std::lock_guard lock(mutex_);
    --open_;
    broke_ = broken ? now : absl::InfiniteFuture();
  }

  // No stream is open, and the last thing heard, kReturn ago or longer, was one that broke.
  bool Left(absl::Time now) const {
    const std::lock_guard lock(mutex_);
    return open_ == 0 && now - broke_ >= kReturn;
  }

 private:
  mutable std::mutex mutex_;
  int open_ = 0;
  absl::Time broke_ = absl::InfiniteFuture();  // when the last stream ended, if it broke
};

}  // namespace rondo
