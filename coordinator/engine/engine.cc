#include "coordinator/engine/engine.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace rondo::coordinator {
namespace {

constexpr int64_t kLastWordsUs = 1000000;  // a rank that was told to go gets this long to do so

int64_t SteadyUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t UnixUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Engine::Engine(EngineOptions options, std::unique_ptr<Journal> journal, const JobHistory& history)
    : options_(std::move(options)),
      clock_offset_us_(UnixUs() - SteadyUs()),
      journal_(std::move(journal)),
      scheduler_(options_.scheduler),
      membership_(options_.membership) {
  if (journal_ != nullptr) compaction_.emplace(options_.compact_bytes, journal_->size_bytes());
  for (Job& job : history.Closed(options_.scheduler.retained_jobs)) {
    last_arrival_ = std::max(last_arrival_, job.spec.arrival);
    scheduler_.RestoreClosed(std::move(job));
  }
  // Before anyone can ask for them: no other thread is there yet.
  const std::vector<Job> unfinished = history.Unfinished();
  unrestored_ = unfinished.size();
  for (const Job& job : unfinished) {
    last_arrival_ = std::max(last_arrival_, job.spec.arrival);
    Step(RestoreEvent{job.spec, job.tokens, job.restarts});
    --unrestored_;
  }
  driver_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "rondo-driver");
    DriverLoop();
  });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(queue_mutex_);
    stop_ = true;
  }
  queue_wake_.notify_one();
  driver_.join();
  for (auto& [id, stream] : streams_) {
    stream->Push(ClosedNote{JobState::kFailed, absl::UnavailableError("the coordinator has stopped"), {}});
  }
}

// Unix time at the start plus what has passed since: it never goes back.
TimeUs Engine::Now() const { return clock_offset_us_ + SteadyUs(); }

void Engine::Post(std::function<void()> task) {
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back(std::move(task));
  }
  queue_wake_.notify_one();
}

void Engine::DriverLoop() {
  using Clock = std::chrono::steady_clock;
  auto last_tick = Clock::now();
  for (;;) {
    std::deque<std::function<void()>> tasks;
    {
      std::unique_lock lock(queue_mutex_);
      queue_wake_.wait_until(lock, last_tick + kTick, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      tasks.swap(queue_);
    }
    const auto began = Clock::now();
    for (auto& task : tasks) task();
    const auto ended = Clock::now();
    // Only with everything heard: if a task held the driver up, what came meanwhile is worked off first, or ranks would
    // be called silent whose heartbeats wait in the queue.
    if (ended - last_tick < kTick || ended - began >= kTick) continue;
    Tick();
    last_tick = ended;
  }
}

void Engine::Tick() {
  MembershipActions actions;
  std::vector<std::shared_ptr<RankLink>> kill;
  {
    const std::lock_guard lock(state_mutex_);
    const TimeUs now = Now();
    actions = membership_.Tick(now);
    std::erase_if(closing_, [&](const ClosingLink& closing) {
      if (now < closing.kill_at) return false;
      kill.push_back(closing.link);
      return true;
    });
  }
  for (const auto& link : kill) link->Kill();
  Perform(actions);
  Step(TickEvent{});
}

void Engine::Step(EventBody body) {
  Actions actions;
  {
    const std::lock_guard lock(state_mutex_);
    actions = scheduler_.Step({Now(), std::move(body)});
  }
  Perform(std::move(actions));
}

void Engine::Perform(Actions actions) {
  const std::vector<std::string> lost = Record(actions);
  for (const GroupCommand& command : actions.send) {
    std::vector<ConnectionId> connections;
    std::vector<std::shared_ptr<RankLink>> links;
    {
      const std::lock_guard lock(state_mutex_);
      connections = membership_.Connections(command.epoch);
      for (const ConnectionId connection : connections) {
        if (const auto it = links_.find(connection); it != links_.end()) links.push_back(it->second);
      }
    }
    if (const auto* leave = std::get_if<LeaveCommand>(&command.body)) {
      LogInfo("epoch ", command.epoch, " ends: ", leave->reason);
      {
        const std::lock_guard lock(state_mutex_);
        membership_.Close(command.epoch);
      }
      for (const ConnectionId connection : connections) {
        CloseLink(connection, [&](RankLink& link) { link.Leave(command.epoch, *leave); });
      }
    } else {
      for (const auto& link : links) link->Send(command);
    }
  }
  std::vector<std::string> too_slow;
  for (JobNote& note : actions.stream) {
    if (std::holds_alternative<AcceptedNote>(note.body) &&
        std::find(lost.begin(), lost.end(), note.job_id) != lost.end()) {
      continue;
    }
    std::shared_ptr<JobStream> stream;
    {
      const std::lock_guard lock(state_mutex_);
      const auto it = streams_.find(note.job_id);
      if (it == streams_.end()) continue;
      stream = it->second;
      if (std::holds_alternative<ClosedNote>(note.body)) streams_.erase(it);
    }
    const std::string id = note.job_id;
    if (!stream->Push(std::move(note.body))) too_slow.push_back(id);
  }
  bool changed = false;
  bool serving = false;
  {
    const std::lock_guard lock(state_mutex_);
    serving = membership_.any_ready() && !scheduler_.draining();
    changed = serving != serving_;
    serving_ = serving;
    if (actions.drained && !drained_) {
      drained_ = true;
      drained_wake_.notify_all();
    }
  }
  if (changed && options_.on_serving) options_.on_serving(serving);
  for (const std::string& id : lost) {
    Step(AbandonEvent{id, absl::UnavailableError("the journal could not keep the job; see the coordinator's log")});
  }
  for (const std::string& id : too_slow) {
    Step(AbandonEvent{
        id, absl::ResourceExhaustedError(absl::StrCat("the client reads too slowly: more than ",
                                                      options_.logits_backlog_bytes, " bytes of logits wait for it"))});
  }
}

void Engine::Perform(const MembershipActions& actions) {
  for (const auto& refusal : actions.refuse) {
    LogWarning("a rank is refused: ", refusal.why.message());
    CloseLink(refusal.connection, [&](RankLink& link) { link.Refuse(refusal.why); });
  }
  for (const GroupInfo& group : actions.ready) {
    LogInfo("epoch ", group.epoch, " begins: ", group.world(), group.world() == 1 ? " rank" : " ranks", ", kernels ",
            group.kernels, ", compute ", group.compute);
    for (const ConnectionId connection : actions.welcome) {
      std::shared_ptr<RankLink> link;
      {
        const std::lock_guard lock(state_mutex_);
        if (const auto it = links_.find(connection); it != links_.end()) link = it->second;
      }
      if (link != nullptr) link->Welcome(group.epoch);
    }
    {
      const std::lock_guard lock(state_mutex_);
      // A group without a model does not hide one that has it.
      ChooseModel();
    }
    model_wake_.notify_all();
    Step(GroupReadyEvent{group});
  }
  if (!actions.lost.empty()) {
    const std::lock_guard lock(state_mutex_);
    ChooseModel();
  }
  for (const GroupLostEvent& lost : actions.lost) LogWarning("epoch ", lost.epoch, " is lost: ", lost.reason);
  for (const auto& departure : actions.leave) {
    const uint64_t epoch = actions.lost.empty() ? 0 : actions.lost.front().epoch;
    CloseLink(departure.connection, [&](RankLink& link) { link.Leave(epoch, LeaveCommand{departure.reason, false}); });
  }
  for (const GroupLostEvent& lost : actions.lost) Step(lost);
}

// The model at hand stays as long as a group serves it, then the newest ready group's takes its place. With no ready
// group it stays too: its group may be on its way back, and jobs are queued for it meanwhile.
void Engine::ChooseModel() {
  const std::vector<std::string> ready = membership_.ReadyKeys();
  if (current_ && std::find(ready.begin(), ready.end(), current_->bits_key) != ready.end()) return;
  for (const std::string& key : ready) {
    if (std::shared_ptr<const ModelInfo> model = ModelOf(key)) {
      current_ = CurrentModel{std::move(model), key};
      return;
    }
  }
}

void Engine::CloseLink(ConnectionId connection, const std::function<void(RankLink&)>& last_words) {
  std::shared_ptr<RankLink> link;
  {
    const std::lock_guard lock(state_mutex_);
    const auto it = links_.find(connection);
    if (it == links_.end()) return;
    link = it->second;
    links_.erase(it);
    closing_.push_back({link, Now() + kLastWordsUs});
  }
  last_words(*link);
}

}  // namespace rondo::coordinator
