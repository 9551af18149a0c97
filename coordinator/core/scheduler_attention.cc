// Attention jobs: opened, run when their client says so, kept until it closes them or its time is over.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/core/scheduler.h"

namespace rondo::coordinator {

void Scheduler::On(const OpenedEvent& e) {
  Job* job = RunningJob(e.epoch, e.job_id);
  if (job == nullptr || job->spec.attention == nullptr || job->stage != AttentionStage::kOpening) return;
  const Group& group = groups_.at(e.epoch);
  job->spec.deadline = kNoDeadline;  // it was for getting here; Attend has its own
  Enter(*job, AttentionStage::kUploading);
  OpenedNote note{e.epoch, group.info.data_addresses, group.occupants.find(e.job_id)->second.bytes,
                  group.info.leaf_level};
  note.data_addresses.resize(note.memory_bytes.size());
  Stream(e.job_id, std::move(note));
}

void Scheduler::On(const AttendEvent& e) {
  Job* job = ActiveJob(e.job_id);
  if (job == nullptr || job->spec.attention == nullptr || job->stage != AttentionStage::kUploading) return;
  Enter(*job, AttentionStage::kAttending);
  job->prefill_fraction = 0;
  Send(groups_.at(job->epoch), RunAttentionCommand{e.job_id});
}

void Scheduler::On(const RanEvent& e) {
  Job* job = RunningJob(e.epoch, e.job_id);
  if (job == nullptr || job->spec.attention == nullptr || job->stage != AttentionStage::kAttending) return;
  Enter(*job, e.error.ok() ? AttentionStage::kKept : AttentionStage::kUploading);
  RanNote note{e.error, e.result};
  note.result.kernels = groups_.at(e.epoch).info.kernels;
  job->attention = note.result;
  Stream(e.job_id, std::move(note));
}

void Scheduler::On(const CloseEvent& e) {
  Job* job = ActiveJob(e.job_id);
  if (job == nullptr || job->spec.attention == nullptr) return;
  const bool done = job->state == JobState::kRunning && job->stage == AttentionStage::kKept;
  Stop(*job, done ? JobState::kFinished : JobState::kCancelled,
       done ? absl::OkStatus() : absl::CancelledError("closed by its client"), "closed by its client");
}

void Scheduler::Enter(Job& job, AttentionStage stage) {
  job.stage = stage;
  job.stage_since = now_;
}

void Scheduler::CheckAttentionTimes(Job& job) {
  if (job.spec.attention == nullptr || job.state != JobState::kRunning) return;
  const int64_t passed = now_ - job.stage_since;
  const auto shown = [](int64_t us) { return absl::StrFormat("%.1f s", us / 1e6); };
  if (job.stage == AttentionStage::kUploading && passed >= options_.upload_wait_us) {
    const std::string what = absl::StrCat("no Attend came within ", shown(options_.upload_wait_us));
    Stop(job, JobState::kFailed, absl::DeadlineExceededError(what), what);
  } else if (job.stage == AttentionStage::kKept && passed >= options_.attention_keep_us) {
    Stop(job, JobState::kFinished, absl::OkStatus(), absl::StrCat("kept for ", shown(options_.attention_keep_us)));
  }
}

uint32_t Scheduler::Group::generating() const {
  return static_cast<uint32_t>(
      std::count_if(occupants.begin(), occupants.end(), [](const auto& entry) { return !entry.second.attention; }));
}

}  // namespace rondo::coordinator
