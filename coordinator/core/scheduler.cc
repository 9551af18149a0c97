#include "coordinator/core/scheduler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "coordinator/core/reservation.h"

namespace rondo::coordinator {
namespace {

constexpr char kShuttingDown[] = "the coordinator is shutting down";

bool IsActive(const Job& job) { return job.state == JobState::kQueued || job.state == JobState::kRunning; }

std::string Seconds(int64_t us) { return absl::StrFormat("%.1f s", us / 1e6); }

uint32_t RingSize(const JobSpec& spec, const GroupInfo& group) {
  return spec.ring_size == 0 ? group.world() : std::min(spec.ring_size, group.world());
}

// A model's jobs run where its bits come from; attention jobs bring everything along and run anywhere.
bool CanRun(const JobSpec& spec, const GroupInfo& group) {
  return spec.attention != nullptr || spec.bits_key == group.bits_key;
}

double PerSecond(uint64_t count, uint64_t us) { return us == 0 ? 0 : static_cast<double>(count) * 1e6 / us; }

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
  TellPositions();
  CheckDrain();
  Forget();
  return std::move(out_);
}

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
  Enqueue(job);
  job.told_position = QueuePosition(e.spec.id);
}

void Scheduler::On(const CancelEvent& e) {
  if (Job* job = ActiveJob(e.job_id)) Stop(*job, JobState::kCancelled, absl::CancelledError(e.reason), e.reason);
}

void Scheduler::On(const AbandonEvent& e) {
  if (Job* job = ActiveJob(e.job_id)) Stop(*job, JobState::kFailed, e.status, std::string(e.status.message()));
}

void Scheduler::On(const GroupReadyEvent& e) {
  RONDO_CHECK(!groups_.contains(e.group.epoch) && e.group.world() > 0);
  Group& group = groups_[e.group.epoch];
  group.info = e.group;
  group.reserved.assign(e.group.world(), 0);
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

void Scheduler::On(const OpenedEvent& e) {
  Job* job = RunningJob(e.epoch, e.job_id);
  if (job == nullptr || job->spec.attention == nullptr || job->stage != AttentionStage::kOpening) return;
  const Group& group = groups_.at(e.epoch);
  job->spec.deadline = kNoDeadline;  // it was for getting here; Attend has its own
  Enter(*job, AttentionStage::kUploading);
  OpenedNote note{e.epoch, group.info.data_addresses, group.occupants.at(e.job_id).bytes};
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

void Scheduler::On(const TickEvent&) {}

absl::Status Scheduler::CheckFits(const JobSpec& spec) const {
  absl::Status why;
  for (const auto& [epoch, group] : groups_) {
    if (!CanRun(spec, group.info)) continue;
    if (spec.ring_size > group.info.world()) {
      why = absl::InvalidArgumentError(
          absl::StrCat("ring_size: ", spec.ring_size, " ranks asked, the group has ", group.info.world()));
      continue;
    }
    const std::vector<uint64_t> need = KvBytesByRank(spec, group.info, RingSize(spec, group.info));
    size_t rank = 0;
    while (rank < need.size() && need[rank] <= group.info.kv_memory[rank]) ++rank;
    if (rank == need.size()) return absl::OkStatus();
    if (spec.attention != nullptr) {
      why = absl::ResourceExhaustedError(absl::StrCat("memory: the tensors need ", need[rank], " bytes on rank ", rank,
                                                      " of ", need.size(), ", which has ", group.info.kv_memory[rank]));
      continue;
    }
    why = absl::ResourceExhaustedError(absl::StrCat("KV memory: ", spec.prompt_tokens, " + ", spec.max_tokens,
                                                    " tokens need ", need[rank], " bytes on rank ", rank, " of ",
                                                    need.size(), ", which has ", group.info.kv_memory[rank]));
  }
  return why;
}

void Scheduler::Enqueue(Job& job) {
  job.state = JobState::kQueued;
  job.run_steps = 0;
  job.prefill_fraction = 0;
  job.waiting_since = 0;
  const auto later = [&](const std::string& id) { return jobs_.at(id).spec.arrival > job.spec.arrival; };
  queue_.insert(std::find_if(queue_.begin(), queue_.end(), later), job.spec.id);
}

void Scheduler::LeaveQueue(const std::string& id) { std::erase(queue_, id); }

void Scheduler::NoteWaiting() {
  for (const std::string& id : queue_) {
    Job& job = jobs_.at(id);
    if (AnyGroupFor(job.spec)) {
      job.waiting_since = 0;
    } else if (job.waiting_since == 0) {
      job.waiting_since = now_;
      ProgressNote note;
      job.told_position = QueuePosition(id);
      note.queue_position = job.told_position;
      note.message = "waiting for a group of workers";
      if (job.restarts == 0) Stream(id, std::move(note));
    }
  }
}

void Scheduler::StartJobs() {
  // First come, first started, among the jobs that the same groups can run: for an attention job these are all.
  std::set<std::string> blocked;
  bool attention_blocked = false;
  for (const std::string& id : std::vector<std::string>(queue_)) {
    Job& job = jobs_.at(id);
    const bool attention = job.spec.attention != nullptr;
    if (attention_blocked || (attention ? !blocked.empty() : blocked.contains(job.spec.bits_key))) continue;
    if (TryStart(job)) continue;
    if (attention) {
      attention_blocked = true;
    } else {
      blocked.insert(job.spec.bits_key);
    }
  }
}

bool Scheduler::TryStart(Job& job) {
  Group* best = nullptr;
  std::vector<uint64_t> best_bytes;
  for (auto& [epoch, group] : groups_) {
    if (!CanRun(job.spec, group.info)) continue;
    if (job.spec.attention == nullptr && group.generating() >= options_.max_running) continue;
    if (best != nullptr && group.occupants.size() >= best->occupants.size()) continue;
    std::vector<uint64_t> bytes = KvBytesByRank(job.spec, group.info, RingSize(job.spec, group.info));
    bool fits = true;
    for (size_t r = 0; r < bytes.size(); ++r) fits &= bytes[r] + group.reserved[r] <= group.info.kv_memory[r];
    if (!fits) continue;
    best = &group;
    best_bytes = std::move(bytes);
  }
  if (best == nullptr) return false;
  const uint32_t ring = RingSize(job.spec, best->info);
  Start(job, *best, ring, std::move(best_bytes));
  return true;
}

void Scheduler::Start(Job& job, Group& group, uint32_t ring, std::vector<uint64_t> bytes) {
  const JobSpec& spec = job.spec;
  LeaveQueue(spec.id);
  for (size_t r = 0; r < bytes.size(); ++r) group.reserved[r] += bytes[r];
  group.occupants[spec.id] = {std::move(bytes), spec.attention != nullptr};
  job.state = JobState::kRunning;
  job.epoch = group.info.epoch;
  job.started = now_;
  job.run_steps = 0;
  job.told_position = 0;
  if (spec.attention != nullptr) {
    Enter(job, AttentionStage::kOpening);
    return Send(group, OpenAttentionCommand{spec.id, spec.attention, ring});
  }
  out_.append.push_back(StartedRecord{spec.id, job.epoch});
  for (int64_t begin = 0; begin < spec.prompt_tokens; begin += options_.prompt_slice_ids) {
    const int64_t end = std::min(begin + options_.prompt_slice_ids, spec.prompt_tokens);
    Send(group, PromptSliceCommand{spec.id, spec.prompt, begin, end});
  }
  Send(group, StartCommand{spec, ring});
  ProgressNote note;
  note.phase = Phase::kPrefill;
  Stream(spec.id, std::move(note));
}

void Scheduler::TellPositions() {
  for (uint32_t position = 0; position < queue_.size(); ++position) {
    Job& job = jobs_.at(queue_[position]);
    if (job.told_position == position) continue;
    job.told_position = position;
    ProgressNote note;
    note.queue_position = position;
    Stream(job.spec.id, std::move(note));
  }
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

void Scheduler::CheckAttentionTimes(Job& job) {
  if (job.spec.attention == nullptr || job.state != JobState::kRunning) return;
  const int64_t passed = now_ - job.stage_since;
  if (job.stage == AttentionStage::kUploading && passed >= options_.upload_wait_us) {
    const std::string what = absl::StrCat("no Attend came within ", Seconds(options_.upload_wait_us));
    Stop(job, JobState::kFailed, absl::DeadlineExceededError(what), what);
  } else if (job.stage == AttentionStage::kKept && passed >= options_.attention_keep_us) {
    Stop(job, JobState::kFinished, absl::OkStatus(), absl::StrCat("kept for ", Seconds(options_.attention_keep_us)));
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

uint32_t Scheduler::Group::generating() const {
  return static_cast<uint32_t>(
      std::count_if(occupants.begin(), occupants.end(), [](const auto& entry) { return !entry.second.attention; }));
}

bool Scheduler::AnyGroupFor(const JobSpec& spec) const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [&](const auto& entry) { return CanRun(spec, entry.second.info); });
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

uint32_t Scheduler::QueuePosition(std::string_view id) const {
  const auto it = std::find(queue_.begin(), queue_.end(), id);
  return it == queue_.end() ? 0 : static_cast<uint32_t>(it - queue_.begin());
}

uint32_t Scheduler::running() const {
  return static_cast<uint32_t>(std::count_if(
      jobs_.begin(), jobs_.end(), [](const auto& entry) { return entry.second.state == JobState::kRunning; }));
}

}  // namespace rondo::coordinator
