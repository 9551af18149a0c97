#include "worker/session/step_loop.h"

#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/session/reference_job.h"
#include "worker/session/start_agreement.h"

namespace rondo {

StepLoop::StepLoop(const WorkerContext& context, CommandQueue& commands, ReportSink* sink)
    : context_(context), commands_(commands), sink_(sink), attention_(context, sink) {
  if (context.model == nullptr) return;
  decoder_.emplace(context.model->config, context.model->weights, *context.kernels.dense, context.compute,
                   *context.pool);
}

absl::Status StepLoop::Run() {
  for (;;) {
    if (active_.empty()) {
      // Idle: every rank sleeps here until the coordinator's next command reaches it.
      if (absl::Status status = commands_.WaitForAny(); !status.ok()) return status;
    } else if (commands_.closed()) {
      return commands_.close_reason();
    }
    if (absl::Status status = Step(); !status.ok()) return status;
  }
}

absl::Status StepLoop::Step() {
  uint64_t through = 0;
  std::vector<StepOutcome> outcomes = outcomes_;
  if (absl::Status status = ExchangeControl(outcomes, through); !status.ok()) return status;
  if (absl::Status status = ApplyOutcomes(outcomes); !status.ok()) return status;
  if (absl::Status status = ApplyCommands(through); !status.ok()) return status;

  outcomes_.assign(active_.size(), StepOutcome{});
  kv_used_bytes_ = KvBytesHeld();
  for (size_t i = 0; i < active_.size(); ++i) {
    if (!active_[i]->takes_part()) continue;
    absl::StatusOr<StepOutcome> outcome = active_[i]->Step(*decoder_);
    if (!outcome.ok()) return outcome.status();
    outcomes_[i] = *outcome;
  }
  return absl::OkStatus();
}

absl::Status StepLoop::ExchangeControl(std::vector<StepOutcome>& outcomes, uint64_t& through) {
  StepControl mine;
  mine.step = ++step_;
  mine.applied_number = commands_.LastNumber();
  mine.active_jobs = active_.size();
  control_.resize(sizeof(StepControl) + outcomes.size() * sizeof(StepOutcome));
  std::memcpy(control_.data(), &mine, sizeof(mine));
  std::memcpy(control_.data() + sizeof(mine), outcomes.data(), outcomes.size() * sizeof(StepOutcome));
  const int world = context_.transport->world_size();
  if (world > 1) {
    const absl::Status status =
        context_.transport->Broadcast(0, world, absl::MakeSpan(control_), absl::Now() + context_.control_timeout);
    if (!status.ok()) return status;
  }
  StepControl control;
  std::memcpy(&control, control_.data(), sizeof(control));
  std::memcpy(outcomes.data(), control_.data() + sizeof(control), outcomes.size() * sizeof(StepOutcome));
  if (control.magic != StepControl::kMagic || control.step != mine.step || control.active_jobs != mine.active_jobs) {
    return absl::InternalError(absl::StrCat("rank 0 is at step ", control.step, " with ", control.active_jobs,
                                            " jobs, this rank at step ", mine.step, " with ", mine.active_jobs));
  }
  through = control.applied_number;
  return absl::OkStatus();
}

absl::Status StepLoop::ApplyOutcomes(const std::vector<StepOutcome>& outcomes) {
  std::vector<std::unique_ptr<ActiveJob>> going_on;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].kind == Outcome::kContinue || outcomes[i].kind == Outcome::kToken) {
      active_[i]->Apply(outcomes[i]);
      going_on.push_back(std::move(active_[i]));
      continue;
    }
    if (absl::Status status = active_[i]->Finish(outcomes[i]); !status.ok()) return status;
    std::lock_guard<std::mutex> lock(flags_mutex_);
    flags_.erase(active_[i]->id());
  }
  active_ = std::move(going_on);
  return absl::OkStatus();
}

absl::Status StepLoop::ApplyCommands(uint64_t through) {
  absl::StatusOr<std::vector<Command>> commands = commands_.TakeThrough(through, absl::Now() + context_.ring_timeout);
  if (!commands.ok()) return commands.status();
  for (Command& command : *commands) {
    absl::Status status;
    if (auto* start = std::get_if<StartJob>(&command.what)) status = Start(std::move(*start));
    if (auto* open = std::get_if<OpenAttention>(&command.what)) status = Open(std::move(*open));
    if (auto* run = std::get_if<RunAttention>(&command.what)) status = attention_.Run(run->id, ++job_sequence_);
    if (auto* cancel = std::get_if<CancelJob>(&command.what)) status = Cancel(*cancel);
    if (!status.ok()) return status;
  }
  applied_number_ = through;
  return absl::OkStatus();
}

absl::Status StepLoop::Start(StartJob start) {
  std::shared_ptr<std::atomic<bool>> cancelled = CancelFlag(start.id);
  ++job_sequence_;
  if (context_.model == nullptr) {
    EndJob(start.id, absl::FailedPreconditionError("this group has no model: it takes attention jobs only"));
    return absl::OkStatus();
  }
  if (start.reference) {
    // Rank 0 alone; the others wait at the head of the next step.
    if (context_.transport->rank() == 0) RunReferenceJob(context_, start, *cancelled, *sink_);
    std::lock_guard<std::mutex> lock(flags_mutex_);
    flags_.erase(start.id);
    return absl::OkStatus();
  }
  const std::string id = start.id;
  absl::StatusOr<std::unique_ptr<ActiveJob>> job = MakeReady(std::move(start), std::move(cancelled));
  // Others may still be waiting for rank 0 to come out of a reference job that it started just before.
  absl::StatusOr<StartVerdict> verdict =
      AgreeOnStart(*context_.transport, job.status(), absl::Now() + context_.control_timeout);
  if (!verdict.ok()) return verdict.status();
  if (verdict->ok()) {
    active_.push_back(*std::move(job));
    return absl::OkStatus();
  }
  // The job's own end, not the group's: other jobs go on. To the coordinator UNAVAILABLE means that peers are lost, and
  // they are all here.
  EndJob(id, absl::IsUnavailable(verdict->why) ? absl::InternalError(verdict->why.message()) : verdict->why);
  return absl::OkStatus();
}

absl::Status StepLoop::Open(OpenAttention open) {
  const std::string id = open.id;
  absl::StatusOr<bool> opened = attention_.Open(std::move(open), KvBytesHeld(), CancelFlag(id));
  if (!opened.ok()) return opened.status();
  if (*opened) return absl::OkStatus();
  std::lock_guard<std::mutex> lock(flags_mutex_);
  flags_.erase(id);
  return absl::OkStatus();
}

void StepLoop::EndJob(const std::string& job, absl::Status error) {
  if (sink_ != nullptr) {
    JobResult result;
    result.id = job;
    result.finish_reason = "error";
    result.error = std::move(error);
    sink_->Ended(result);
  }
  std::lock_guard<std::mutex> lock(flags_mutex_);
  flags_.erase(job);
}

uint64_t StepLoop::KvBytesHeld() const {
  uint64_t bytes = attention_.held_bytes();
  for (const auto& job : active_) bytes += job->kv_bytes();
  return bytes;
}

absl::StatusOr<std::unique_ptr<ActiveJob>> StepLoop::MakeReady(StartJob start,
                                                               std::shared_ptr<std::atomic<bool>> cancelled) {
  try {
    absl::StatusOr<std::unique_ptr<ActiveJob>> job =
        ActiveJob::Create(context_, std::move(start), std::move(cancelled), job_sequence_, KvBytesHeld(), sink_);
    if (!job.ok()) return job;
    if (absl::Status reserved = decoder_->Reserve((*job)->most_rows()); !reserved.ok()) return reserved;
    return job;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  }
}

absl::Status StepLoop::Cancel(const CancelJob& cancel) {
  attention_.Close(cancel.id);
  for (size_t i = 0; i < active_.size(); ++i) {
    if (active_[i]->id() != cancel.id) continue;
    if (absl::Status status = active_[i]->Finish({Outcome::kCancelled, 0}); !status.ok()) return status;
    active_.erase(active_.begin() + static_cast<int64_t>(i));
    break;
  }
  std::lock_guard<std::mutex> lock(flags_mutex_);
  flags_.erase(cancel.id);
  return absl::OkStatus();
}

std::shared_ptr<std::atomic<bool>> StepLoop::CancelFlag(const std::string& job) {
  std::lock_guard<std::mutex> lock(flags_mutex_);
  std::shared_ptr<std::atomic<bool>>& flag = flags_[job];
  if (flag == nullptr) flag = std::make_shared<std::atomic<bool>>(false);
  return flag;
}

uint64_t StepLoop::progress() const {
  return applied_number() + step_.load(std::memory_order_relaxed) + context_.pool->tasks_done();
}

void StepLoop::FlagCancelled(const std::string& job) { CancelFlag(job)->store(true); }

}  // namespace rondo
