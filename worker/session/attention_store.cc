#include "worker/session/attention_store.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rondo {

void AttentionStore::SetEpoch(uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
}

void AttentionStore::Add(const std::string& id, std::string token, std::shared_ptr<AttentionTensors> tensors) {
  const std::lock_guard lock(mutex_);
  jobs_[id] = {std::move(token), std::move(tensors)};
}

void AttentionStore::Remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(id);
}

std::vector<std::string> AttentionStore::TakeFed() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> fed;
  for (const auto& [id, entry] : jobs_) {
    if (entry.tensors->TakeFed()) fed.push_back(id);
  }
  return fed;
}

std::vector<std::string> AttentionStore::Left(absl::Time now) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> left;
  for (const auto& [id, entry] : jobs_) {
    if (entry.tensors->uploads().Left(now)) left.push_back(id);
  }
  return left;
}

absl::StatusOr<std::shared_ptr<AttentionTensors>> AttentionStore::Find(const std::string& id, const std::string& token,
                                                                       uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  if (epoch != epoch_) {
    return absl::UnavailableError(
        absl::StrCat("job.epoch: ", epoch, " is over, this rank is in epoch ", epoch_, ": open the job again"));
  }
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) {
    return absl::NotFoundError(absl::StrCat("job.job_id: no attention job \"", id, "\" is open on this rank"));
  }
  if (it->second.token != token) return absl::PermissionDeniedError("job.token: not the one of the job's ticket");
  return it->second.tensors;
}

}  // namespace rondo
