#include "coordinator/engine/job_stream.h"

#include <utility>

namespace rondo::coordinator {

bool JobStream::Push(decltype(JobNote::body) note) {
  const std::lock_guard lock(mutex_);
  if (auto* accepted = std::get_if<AcceptedNote>(&note)) {
    pending_.accepted = *accepted;
  } else if (auto* progress = std::get_if<ProgressNote>(&note)) {
    (progress->phase == Phase::kRestarting ? pending_.restarting : pending_.progress) = std::move(*progress);
  } else if (auto* token = std::get_if<TokenNote>(&note)) {
    pending_.tokens.push_back(token->token);
  } else if (auto* logits = std::get_if<LogitsNote>(&note)) {
    if (logits_bytes_ + logits->values.size() > logits_limit_) return false;
    logits_bytes_ += logits->values.size();
    pending_.logits.push_back(std::move(*logits));
  } else if (auto* opened = std::get_if<OpenedNote>(&note)) {
    pending_.opened = std::move(*opened);
  } else if (auto* ran = std::get_if<RanNote>(&note)) {
    pending_.ran = std::move(*ran);
  } else {
    pending_.closed = std::move(std::get<ClosedNote>(note));
  }
  wake_.notify_one();
  return true;
}

JobStream::Batch JobStream::Wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, timeout, [this] { return !pending_.empty(); });
  logits_bytes_ = 0;
  return std::exchange(pending_, {});
}

}  // namespace rondo::coordinator
