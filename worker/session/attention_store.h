// The attention jobs open on one rank, for its data server: the step loop adds and removes them, calls of any thread
// look them up and show that they may.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/session/attention_tensors.h"

namespace rondo {

// Any thread.
class AttentionStore {
 public:
  void SetEpoch(uint64_t epoch);

  void Add(const std::string& id, std::string token, std::shared_ptr<AttentionTensors> tensors);
  void Remove(const std::string& id);

  // UNAVAILABLE for another epoch, NOT_FOUND for a job that is not here, PERMISSION_DENIED for a wrong token.
  absl::StatusOr<std::shared_ptr<AttentionTensors>> Find(const std::string& id, const std::string& token,
                                                         uint64_t epoch) const;

  // Jobs that took rows since the last call.
  std::vector<std::string> TakeFed();

  // Jobs whose clients are gone, every time until they are removed.
  std::vector<std::string> Left(absl::Time now) const;

 private:
  struct Entry {
    std::string token;
    std::shared_ptr<AttentionTensors> tensors;
  };
  mutable std::mutex mutex_;
  uint64_t epoch_ = 0;
  std::map<std::string, Entry> jobs_;
};

}  // namespace rondo
