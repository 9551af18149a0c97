// What services call, from any thread: most of it is handed to the driver, the rest is a look at its state.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "coordinator/engine/engine.h"

namespace rondo::coordinator {

ConnectionId Engine::Connect(std::shared_ptr<RankLink> link) {
  const std::lock_guard lock(state_mutex_);
  links_[++last_connection_] = std::move(link);
  return last_connection_;
}

void Engine::Join(ConnectionId connection, RankHello hello) {
  Post([this, connection, hello = std::move(hello)] {
    MembershipActions actions;
    {
      const std::lock_guard lock(state_mutex_);
      actions = membership_.Join(connection, hello, models_.contains(hello.fingerprint.model_sha256), Now());
    }
    Perform(actions);
  });
}

void Engine::ModelRead(ConnectionId connection, absl::StatusOr<std::shared_ptr<const ModelInfo>> model) {
  Post([this, connection, model = std::move(model)] {
    MembershipActions actions;
    {
      const std::lock_guard lock(state_mutex_);
      if (model.ok()) models_[(*model)->sha256] = *model;
      actions = membership_.ModelRead(connection, model.status(), Now());
    }
    Perform(actions);
  });
}

void Engine::Heard(ConnectionId connection, RankVitals vitals, std::vector<std::string> fed_jobs,
                   std::vector<std::string> left_jobs) {
  Post([this, connection, vitals, fed_jobs = std::move(fed_jobs), left_jobs = std::move(left_jobs)]() mutable {
    BeatEvent beat{0, 0, vitals.applied_number, vitals.progress, std::move(fed_jobs)};
    {
      const std::lock_guard lock(state_mutex_);
      membership_.Heard(connection, &vitals, Now());
      beat.epoch = membership_.EpochOf(connection);
      if (beat.epoch == 0) return;
      beat.rank = membership_.RankOf(connection);
      // From Attend on, the client's call says whether it is there.
      std::erase_if(left_jobs, [&](const std::string& id) {
        const Job* job = scheduler_.FindJob(id);
        return job == nullptr || job->state != JobState::kRunning || job->epoch != beat.epoch ||
               job->stage != AttentionStage::kUploading;
      });
    }
    Step(std::move(beat));
    for (std::string& id : left_jobs) Step(CancelEvent{std::move(id), "the client left during its upload"});
  });
}

void Engine::Report(ConnectionId connection, uint64_t epoch, EventBody body) {
  Post([this, connection, epoch, body = std::move(body)]() mutable {
    uint64_t own = 0;
    {
      const std::lock_guard lock(state_mutex_);
      own = membership_.EpochOf(connection);
      membership_.Heard(connection, nullptr, Now());
    }
    if (own == 0 || own != epoch) {
      LogWarning("a message of epoch ", epoch, " is refused: its rank is in epoch ", own);
      return;
    }
    Step(std::move(body));
  });
}

void Engine::Gone(ConnectionId connection, std::string reason) {
  {
    const std::lock_guard lock(state_mutex_);
    links_.erase(connection);
  }
  Post([this, connection, reason = std::move(reason)] {
    MembershipActions actions;
    {
      const std::lock_guard lock(state_mutex_);
      actions = membership_.Gone(connection, reason, Now());
    }
    Perform(actions);
  });
}

uint64_t Engine::DrawArrival() {
  const std::lock_guard lock(state_mutex_);
  return ++last_arrival_;
}

absl::StatusOr<CurrentModel> Engine::WaitForModel(TimeUs deadline, const std::function<bool()>& cancelled) {
  std::unique_lock lock(state_mutex_);
  if (current_) return *current_;
  if (model_waiters_ >= options_.scheduler.queue_limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("queue is full: ", model_waiters_, " of ", options_.scheduler.queue_limit, " jobs"));
  }
  ++model_waiters_;
  const TimeUs until = deadline != kNoDeadline ? deadline : Now() + options_.scheduler.group_wait_us;
  absl::Status why;
  while (!current_ && why.ok()) {
    model_wake_.wait_for(lock, kTick);
    if (scheduler_.draining()) {
      why = absl::UnavailableError("the coordinator is shutting down");
    } else if (!current_ && membership_.any_ready_without_model()) {
      why = absl::FailedPreconditionError("this group has no model: it takes attention jobs only");
    } else if (Now() >= until) {
      why = absl::UnavailableError("no group has joined");
    } else if (cancelled()) {
      why = absl::CancelledError("the client left");
    }
  }
  --model_waiters_;
  if (current_) return *current_;
  return why;
}

std::shared_ptr<JobStream> Engine::Submit(JobSpec spec) {
  auto stream = std::make_shared<JobStream>(options_.logits_backlog_bytes);
  {
    const std::lock_guard lock(state_mutex_);
    streams_[spec.id] = stream;
  }
  Post([this, spec = std::move(spec)] { Step(SubmitEvent{spec}); });
  return stream;
}

std::shared_ptr<JobStream> Engine::FindStream(const std::string& job_id) const {
  const std::lock_guard lock(state_mutex_);
  const auto it = streams_.find(job_id);
  return it == streams_.end() ? nullptr : it->second;
}

void Engine::Attend(const std::string& job_id) {
  Post([this, job_id] { Step(AttendEvent{job_id}); });
}

void Engine::Close(const std::string& job_id) {
  Post([this, job_id] { Step(CloseEvent{job_id}); });
}

bool Engine::Cancel(const std::string& job_id, const std::string& reason) {
  bool active = false;
  {
    const std::lock_guard lock(state_mutex_);
    const Job* job = scheduler_.FindJob(job_id);
    active = job != nullptr && (job->state == JobState::kQueued || job->state == JobState::kRunning);
  }
  // Posted in any case: its submission may still be on its way to the scheduler.
  Post([this, job_id, reason] { Step(CancelEvent{job_id, reason}); });
  return active;
}

std::shared_ptr<const ModelInfo> Engine::ModelOf(const std::string& bits_key) const {
  const auto it = models_.find(bits_key.substr(0, bits_key.find('/')));
  return it == models_.end() ? nullptr : it->second;
}

std::optional<Engine::JobView> Engine::FindJob(std::string_view id) const {
  const std::lock_guard lock(state_mutex_);
  const Job* job = scheduler_.FindJob(id);
  if (job == nullptr) return std::nullopt;
  return JobView{*job, scheduler_.QueuePosition(id), ModelOf(job->spec.bits_key)};
}

std::vector<Engine::JobView> Engine::ActiveJobs() const {
  const std::lock_guard lock(state_mutex_);
  std::vector<JobView> views;
  for (const Job* job : scheduler_.ActiveJobs()) {
    views.push_back({*job, scheduler_.QueuePosition(job->spec.id), nullptr});
  }
  return views;
}

Engine::ClusterView Engine::Cluster() const {
  const std::lock_guard lock(state_mutex_);
  ClusterView view;
  for (const auto& [launch, group] : membership_.groups()) view.groups.push_back(group);
  view.models = models_;
  view.queued = scheduler_.queued();
  view.running = scheduler_.running();
  view.queue_limit = options_.scheduler.queue_limit;
  view.draining = scheduler_.draining();
  return view;
}

void Engine::Drain(int64_t grace_us) {
  Post([this, grace_us] { Step(DrainEvent{grace_us}); });
}

bool Engine::WaitDrained(std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_mutex_);
  return drained_wake_.wait_for(lock, timeout, [this] { return drained_; });
}

}  // namespace rondo::coordinator
