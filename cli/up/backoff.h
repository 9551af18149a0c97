// How long `rondo up` waits before it starts a lost group again, and when it gives up.
#pragma once

#include <algorithm>
#include <chrono>

namespace rondo::cli {

// Doubles from 0.2 s, which a person hardly notices, to 5 s, which keeps a machine that cannot recover quiet.
class Backoff {
 public:
  static constexpr std::chrono::milliseconds kFirst{200};
  static constexpr std::chrono::milliseconds kLongest{5000};
  static constexpr int kGiveUpAfter = 5;

  // The group did its job for a while: the next failure is the first again.
  void Succeeded() { failures_ = 0; }

  // Counts a failure and returns how long to wait.
  std::chrono::milliseconds Failed() {
    const std::chrono::milliseconds wait = kFirst * (1 << std::min(failures_, 10));
    ++failures_;
    return std::min(wait, kLongest);
  }

  bool exhausted() const { return failures_ >= kGiveUpAfter; }

 private:
  int failures_ = 0;
};

}  // namespace rondo::cli
