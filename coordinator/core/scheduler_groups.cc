// What groups do and report: ready, lost, progress, tokens, ends.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "coordinator/core/reservation.h"
#include "coordinator/core/scheduler.h"

namespace rondo::coordinator {
namespace {

double PerSecond(uint64_t count, uint64_t us) { return us == 0 ? 0 : static_cast<double>(count) * 1e6 / us; }

}  // namespace

void Scheduler::On(const GroupReadyEvent& e) {
  RONDO_CHECK(!groups_.contains(e.group.epoch) && e.group.world() > 0);
  Group& group = groups_[e.group.epoch];
  group.info = e.group;
  group.reserved.assign(e.group.world(), 0);
  group.ranks.assign(e.group.world(), Group::Rank{.moved = now_});
  if (draining_) {
    Send(group, LeaveCommand{kShuttingDown, true});
    groups_.erase(e.group.epoch);
    return;
  }
  // A job accepted before may be too large for what came back.
  for (const std::string& id : std::vector<std::string>(queue_)) {
    Job& job = jobs_.at(id);
    JobSpec clamped = job.spec;
    clamped.ring_size = RingSize(job.spec, e.group);
    if (absl::Status fits = CheckFits(clamped); !fits.ok()) Stop(job, JobState::kFailed, std::move(fits), "");
  }
}

void Scheduler::On(const GroupLostEvent& e) { LoseGroup(e.epoch, e.reason); }

void Scheduler::LoseGroup(uint64_t epoch, const std::string& reason) {
  if (!groups_.contains(epoch)) return;
  groups_.erase(epoch);
  for (auto& [id, job] : jobs_) {
    if (job.state != JobState::kRunning || job.epoch != epoch) continue;
    if (draining_) {
      Close(job, JobState::kFailed, absl::UnavailableError(kShuttingDown), {});
      continue;
    }
    if (job.spec.attention != nullptr) {
      Close(job, JobState::kFailed,
            absl::UnavailableError(absl::StrCat("the group and the tensors it held were lost: ", reason)), {});
      continue;
    }
    if (++job.restarts > options_.max_restarts) {
      Close(job, JobState::kFailed,
            absl::UnavailableError(
                absl::StrCat("the group was lost ", job.restarts, " times while this job ran; last: ", reason)),
            {});
      continue;
    }
    job.epoch = 0;
    Enqueue(job);
    ProgressNote note;
    note.phase = Phase::kRestarting;
    note.message = reason;
    job.told_position = QueuePosition(id);
    note.queue_position = job.told_position;
    Stream(id, std::move(note));
  }
}

void Scheduler::On(const ProgressEvent& e) {
  Job* job = RunningJob(e.epoch, e.job_id);
  if (job == nullptr) return;
  if (job->spec.attention != nullptr && job->stage != AttentionStage::kAttending) return;
  job->prefill_fraction = std::clamp(e.fraction, 0.0, 1.0);
  ProgressNote note;
  note.phase = Phase::kPrefill;
  note.fraction = job->prefill_fraction;
  const int64_t elapsed = now_ - (job->spec.attention != nullptr ? job->stage_since : job->started);
  if (note.fraction > 0 && elapsed > 0) {
    note.tokens_per_s = note.fraction * static_cast<double>(job->spec.prompt_tokens) * 1e6 / elapsed;
    note.eta_us = static_cast<uint64_t>(elapsed * (1 - note.fraction) / note.fraction);
  }
  Stream(e.job_id, std::move(note));
}

void Scheduler::On(const TokenEvent& e) {
  Job* job = RunningJob(e.epoch, e.job_id);
  if (job == nullptr) return;
  const auto fail = [&](const std::string& what) { Stop(*job, JobState::kFailed, absl::InternalError(what), what); };
  if (e.step != job->run_steps) {
    return fail(absl::StrCat("token of step ", e.step, " came where step ", job->run_steps, " was due"));
  }
  ++job->run_steps;
  job->prefill_fraction = 1;
  if (job->first_token == 0) job->first_token = now_;
  if (e.step < job->tokens.size()) {
    // Drawn and streamed in an earlier run. The law says it is the same one.
    if (e.is_end || e.token != job->tokens[e.step]) {
      return fail(absl::StrCat("step ", e.step, " drew token ", e.token, e.is_end ? " (end)" : "",
                               " where an earlier run drew ", job->tokens[e.step]));
    }
    return;
  }
  if (e.is_end) return;
  job->tokens.push_back(e.token);
  out_.append.push_back(TokensRecord{e.job_id, e.step, {e.token}});
  Stream(e.job_id, TokenNote{e.token});
}

void Scheduler::On(const LogitsEvent& e) {
  Job* job = RunningJob(e.epoch, e.job_id);
  if (job == nullptr || !job->spec.want_logits) return;
  const uint64_t begin = uint64_t{e.step} << 32 | e.offset;
  if (begin < job->logits_streamed) return;  // passed on in an earlier run
  job->logits_streamed = begin + e.values.size() / sizeof(float);
  Stream(e.job_id, LogitsNote{e.step, e.offset, e.values});
}

void Scheduler::On(const EndedEvent& e) {
  const auto group = groups_.find(e.epoch);
  if (group == groups_.end()) return;
  Job* job = RunningJob(e.epoch, e.job_id);
  if (job == nullptr) return Release(group->second, e.job_id);  // cancelled before: its memory is free now
  if (e.finish_reason == "error") {
    const auto code = static_cast<absl::StatusCode>(e.error_code);
    if (code == absl::StatusCode::kUnavailable) {
      // A rank has lost its peers: the epoch is over, whether or not the coordinator has noticed.
      Send(group->second, LeaveCommand{e.error, false});
      return LoseGroup(e.epoch, e.error);
    }
    Release(group->second, e.job_id);
    const bool known = e.error_code > 0 && e.error_code <= 16;
    return Close(*job, JobState::kFailed, absl::Status(known ? code : absl::StatusCode::kInternal, e.error), {});
  }
  JobResult r;
  r.finish_reason = e.finish_reason;
  r.prompt_tokens = static_cast<uint64_t>(job->spec.prompt_tokens);
  r.completion_tokens = job->tokens.size();
  r.ttft_us = job->first_token == 0 ? 0 : static_cast<uint64_t>(job->first_token - job->spec.submitted);
  r.prefill_us = e.prefill_us;
  r.decode_us = e.decode_us;
  r.prefill_tokens_per_s = PerSecond(r.prompt_tokens, e.prefill_us);
  // The first token is the prefill's: decoding made the others.
  r.decode_tokens_per_s = PerSecond(e.steps > 0 ? e.steps - 1 : 0, e.decode_us);
  r.workers = RingSize(job->spec, group->second.info);
  r.kernels = group->second.info.kernels;
  r.compute = group->second.info.compute;
  r.kv_type = group->second.info.kv_type;
  r.strategy = e.strategy;
  r.digest = e.digest;
  r.exchanged_bytes = e.exchanged_bytes;
  r.kv_bytes_per_worker = e.kv_bytes_per_worker;
  r.restarts = job->restarts;
  Release(group->second, e.job_id);
  if (e.finish_reason == "cancelled") {
    return Close(*job, JobState::kCancelled, absl::CancelledError("cancelled by the group"), std::move(r));
  }
  if (job->run_steps < job->tokens.size()) {
    return Close(*job, JobState::kFailed,
                 absl::InternalError(absl::StrCat("the job ended after ", job->run_steps,
                                                  " steps where an earlier run drew ", job->tokens.size(), " tokens")),
                 {});
  }
  Close(*job, JobState::kFinished, absl::OkStatus(), std::move(r));
}

}  // namespace rondo::coordinator
