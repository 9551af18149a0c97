// Documents that clients uploaded ahead of a Generate call: in memory, capped, forgotten after ten minutes without use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rondo::coordinator {

struct UploadLimits {
  uint64_t upload_bytes = 64u << 20;
  uint64_t total_bytes = 512u << 20;  // of all uploads, those still arriving included
  int64_t expiry_us = 600000000;
};

// Any thread. Times are the caller's.
class UploadStore {
 public:
  explicit UploadStore(UploadLimits limits) : limits_(limits) {}

  // An upload that is arriving; gives its bytes back to the total if it is dropped before Finish.
  class Arriving {
   public:
    explicit Arriving(UploadStore& store) : store_(store) {}
    ~Arriving();
    Arriving(const Arriving&) = delete;
    Arriving& operator=(const Arriving&) = delete;
    // RESOURCE_EXHAUSTED naming the cap.
    absl::Status Append(const std::string& piece, int64_t now);
    // The new upload's id: 128 random bits, not to be guessed.
    std::string Finish(int64_t now);
    uint64_t size() const { return data_.size(); }

   private:
    UploadStore& store_;
    std::string data_;
    bool finished_ = false;
  };

  // NOT_FOUND for an id that was never given or has expired.
  absl::StatusOr<std::shared_ptr<const std::string>> Find(const std::string& id, int64_t now);

 private:
  struct Entry {
    std::shared_ptr<const std::string> data;
    int64_t last_used = 0;
  };
  void ForgetOld(int64_t now);  // mutex held

  const UploadLimits limits_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  uint64_t total_ = 0;
};

// 32 hex digits from the kernel's random source.
std::string RandomId();

}  // namespace rondo::coordinator
