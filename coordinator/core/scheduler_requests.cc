// What clients and operators ask for: submit, cancel, drain.
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/scheduler.h"

namespace rondo::coordinator {

void Scheduler::On(const SubmitEvent& e) {
  const JobSpec& spec = e.spec;
  const auto refuse = [&](absl::Status why) { Stream(spec.id, ClosedNote{JobState::kFailed, std::move(why), {}}); };
  if (jobs_.contains(spec.id)) return refuse(absl::AlreadyExistsError(absl::StrCat("job ", spec.id, " exists")));
  if (draining_) return refuse(absl::UnavailableError(kShuttingDown));
  if (spec.deadline != kNoDeadline && spec.deadline <= now_) {
    return refuse(absl::DeadlineExceededError("the deadline passed before the job was queued"));
  }
  if (absl::Status fits = CheckFits(spec); !fits.ok()) return refuse(std::move(fits));
  if (queue_.size() >= options_.queue_limit) {
    return refuse(absl::ResourceExhaustedError(
        absl::StrCat("queue is full: ", queue_.size(), " of ", options_.queue_limit, " jobs")));
  }
  Job& job = jobs_[spec.id];
  job.spec = spec;
  if (spec.attention == nullptr) {
    out_.append.push_back(SubmittedRecord{spec});
    out_.must_sync = true;
  }
  Enqueue(job);
  job.told_position = QueuePosition(spec.id);
  Stream(spec.id, AcceptedNote{static_cast<uint64_t>(spec.prompt_tokens), job.told_position});
}

void Scheduler::On(const RestoreEvent& e) {
  if (jobs_.contains(e.spec.id)) return;
  Job& job = jobs_[e.spec.id];
  job.spec = e.spec;
  job.tokens = e.tokens;
  job.restarts = e.runs;  // its last run went with the coordinator
  Enqueue(job);
  if (job.restarts > options_.max_restarts) {
    return Stop(job, JobState::kFailed,
                absl::UnavailableError(absl::StrCat("the job was started ", job.restarts, " times and never ended")),
                "");
  }
  job.told_position = QueuePosition(e.spec.id);
}

void Scheduler::On(const CancelEvent& e) {
  if (Job* job = ActiveJob(e.job_id)) Stop(*job, JobState::kCancelled, absl::CancelledError(e.reason), e.reason);
}

void Scheduler::On(const AbandonEvent& e) {
  if (Job* job = ActiveJob(e.job_id)) Stop(*job, JobState::kFailed, e.status, std::string(e.status.message()));
}

void Scheduler::On(const DrainEvent& e) {
  if (!draining_) {
    draining_ = true;
    drain_until_ = now_ + e.grace_us;
    for (const std::string& id : std::vector<std::string>(queue_)) {
      Stop(jobs_.at(id), JobState::kFailed, absl::UnavailableError(kShuttingDown), "");
    }
  }
  drain_until_ = std::min(drain_until_, now_ + e.grace_us);
}

void Scheduler::On(const TickEvent&) { CheckStalls(); }

}  // namespace rondo::coordinator
