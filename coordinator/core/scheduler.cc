// A step, the clock's part in it, how jobs end, and what is to be seen from outside.
#include "coordinator/core/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace rondo::coordinator {
namespace {

bool IsActive(const Job& job) { return job.state == JobState::kQueued || job.state == JobState::kRunning; }

std::string Seconds(int64_t us) { return absl::StrFormat("%.1f s", us / 1e6); }

}  // namespace

Scheduler::Scheduler(SchedulerOptions options) : options_(options) {}

Actions Scheduler::Step(const Event& event) {
  RONDO_CHECK(event.now >= now_);
  now_ = event.now;
  out_ = {};
  // Times first: a job whose deadline has passed must not start, whatever this event frees.
  CheckTimes();
  std::visit([this](const auto& body) { On(body); }, event.body);
  NoteWaiting();
  StartJobs();
  NoteBusy();
  TellPositions();
  CheckDrain();
  Forget();
  return std::move(out_);
}

void Scheduler::CheckTimes() {
  std::vector<std::string> active(queue_);
  for (const auto& [id, job] : jobs_) {
    if (job.state == JobState::kRunning) active.push_back(id);
  }
  for (const std::string& id : active) {
    Job& job = jobs_.at(id);
    CheckAttentionTimes(job);
    if (!IsActive(job)) continue;
    const bool waiting = job.state == JobState::kQueued && job.waiting_since != 0;
    const bool late = job.spec.deadline != kNoDeadline && now_ >= job.spec.deadline;
    const bool gave_up =
        job.spec.deadline == kNoDeadline && waiting && now_ - job.waiting_since >= options_.group_wait_us;
    if (late && !waiting) {
      const std::string what = absl::StrCat("the deadline passed while the job was ", Name(job.state), ", after ",
                                            Seconds(now_ - job.spec.submitted));
      Stop(job, JobState::kFailed, absl::DeadlineExceededError(what), what);
    } else if (late || gave_up) {
      Stop(job, JobState::kFailed,
           absl::UnavailableError(absl::StrCat("no group of workers ", job.restarts > 0 ? "came back" : "was there",
                                               " in time: waited ", Seconds(now_ - job.waiting_since))),
           "");
    }
  }
}

void Scheduler::CheckDrain() {
  if (!draining_) return;
  if (running() > 0 && now_ >= drain_until_) {
    for (auto& [id, job] : jobs_) {
      if (job.state == JobState::kRunning) {
        Stop(job, JobState::kFailed, absl::UnavailableError(kShuttingDown), kShuttingDown);
      }
    }
  }
  if (running() > 0) return;
  for (auto& [epoch, group] : groups_) Send(group, LeaveCommand{kShuttingDown, true});
  groups_.clear();
  out_.drained = true;
}

void Scheduler::Stop(Job& job, JobState state, absl::Status error, const std::string& reason) {
  JobResult result;
  if (state == JobState::kCancelled) {
    result.finish_reason = "cancelled";
    result.prompt_tokens = static_cast<uint64_t>(job.spec.prompt_tokens);
    result.completion_tokens = job.tokens.size();
    result.restarts = job.restarts;
  }
  if (job.state == JobState::kQueued) {
    LeaveQueue(job.spec.id);
  } else if (const auto group = groups_.find(job.epoch); group != groups_.end()) {
    // Its memory stays reserved until the group says the job has ended.
    Send(group->second, CancelCommand{job.spec.id, reason});
  }
  Close(job, state, std::move(error), std::move(result));
}

void Scheduler::Close(Job& job, JobState state, absl::Status error, JobResult result) {
  job.state = state;
  job.error = error;
  job.result = result;
  if (job.spec.attention == nullptr) {
    out_.append.push_back(ClosedRecord{job.spec.id, state, error, result});
    out_.must_sync = true;
  }
  Stream(job.spec.id, ClosedNote{state, std::move(error), std::move(result)});
  // The prompt is the large part, and nobody asks for it again.
  job.spec.prompt = nullptr;
  closed_.push_back(job.spec.id);
}

void Scheduler::RestoreClosed(Job job) {
  const std::string id = job.spec.id;
  job.spec.prompt = nullptr;
  if (jobs_.emplace(id, std::move(job)).second) closed_.push_back(id);
}

void Scheduler::Forget() {
  while (closed_.size() > options_.retained_jobs) {
    jobs_.erase(closed_.front());
    closed_.pop_front();
  }
}

void Scheduler::Release(Group& group, const std::string& job_id) {
  const auto it = group.occupants.find(job_id);
  if (it == group.occupants.end()) return;
  const std::vector<uint64_t>& bytes = it->second.bytes;
  for (size_t r = 0; r < bytes.size(); ++r) group.reserved[r] -= bytes[r];
  group.occupants.erase(it);
}

void Scheduler::Send(Group& group, decltype(GroupCommand::body) body) {
  const uint64_t number = std::holds_alternative<LeaveCommand>(body) ? 0 : ++group.last_number;
  out_.send.push_back({group.info.epoch, number, std::move(body)});
}

void Scheduler::Stream(const std::string& job_id, decltype(JobNote::body) body) {
  out_.stream.push_back({job_id, std::move(body)});
}

Job* Scheduler::ActiveJob(const std::string& id) {
  const auto it = jobs_.find(id);
  return it != jobs_.end() && IsActive(it->second) ? &it->second : nullptr;
}

Job* Scheduler::RunningJob(uint64_t epoch, const std::string& id) {
  Job* job = ActiveJob(id);
  return job != nullptr && job->state == JobState::kRunning && job->epoch == epoch ? job : nullptr;
}

const Job* Scheduler::FindJob(std::string_view id) const {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

std::vector<const Job*> Scheduler::ActiveJobs() const {
  std::vector<const Job*> active;
  for (const auto& [id, job] : jobs_) {
    if (job.state == JobState::kRunning) active.push_back(&job);
  }
  std::sort(active.begin(), active.end(), [](const Job* a, const Job* b) { return a->spec.arrival < b->spec.arrival; });
  for (const std::string& id : queue_) active.push_back(&jobs_.at(id));
  return active;
}

std::vector<const Job*> Scheduler::ClosedJobs() const {
  std::vector<const Job*> closed;
  for (const std::string& id : closed_) closed.push_back(&jobs_.at(id));
  return closed;
}

uint32_t Scheduler::QueuePosition(std::string_view id) const {
  const auto it = std::find(queue_.begin(), queue_.end(), id);
  return it == queue_.end() ? 0 : static_cast<uint32_t>(it - queue_.begin());
}

uint32_t Scheduler::running() const {
  return static_cast<uint32_t>(std::count_if(
      jobs_.begin(), jobs_.end(), [](const auto& entry) { return entry.second.state == JobState::kRunning; }));
}

}  // namespace rondo::coordinator
