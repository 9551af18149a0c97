#include "worker/transport/device/engine.h"

#include <sched.h>
#include <sys/prctl.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "worker/transport/device/matching.h"

namespace rondo {
namespace {

// How long after the last movement the thread looks without a pause, and then with sched_yield: as the MPI thread.
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr auto kYield = std::chrono::microseconds(150);
// With nothing posted only another rank's failure can come: a hundred looks a second cost nothing.
constexpr absl::Duration kIdleSleep = absl::Milliseconds(10);

}  // namespace

DeviceTransport::Engine::Engine(Transport& control, CudaApi& cuda, std::unique_ptr<DevicePath> path,
                                const DeviceTransportOptions& options)
    : control_(control), cuda_(cuda), path_(std::move(path)), options_(options) {}

DeviceTransport::Engine::~Engine() {
  for (CudaEvent* event : free_events_) cuda_.Drop(event);
}

absl::Status DeviceTransport::Engine::Start() {
  thread_ = std::thread([self = shared_from_this()] { self->ThreadMain(); });
  std::unique_lock lock(mutex_);
  wake_caller_.wait(lock, [&] { return phase_ != Phase::kStarting || !failure_.ok(); });
  return failure_;
}

void DeviceTransport::Engine::ThreadMain() {
  prctl(PR_SET_NAME, "rondo-device");
  Matching matching(*this);
  absl::Status status = cuda_.Use(options_.device);
  if (status.ok()) status = matching.Begin();
  if (status.ok()) {
    {
      std::lock_guard lock(mutex_);
      phase_ = Phase::kRunning;
      wake_caller_.notify_all();
    }
    status = Loop(matching);
  }
  if (!status.ok()) Fail(status);
  bool failed = false;
  {
    std::lock_guard lock(mutex_);
    failed = !failure_.ok();
  }
  if (failed) EndFailed(matching);
  std::lock_guard lock(mutex_);
  phase_ = Phase::kEnded;
  quiet_ = true;
  // Nobody waits for these any more; what they free is freed where they are destroyed.
  for (const std::function<void()>& task : tasks_) task();
  tasks_.clear();
  wake_caller_.notify_all();
}

absl::Status DeviceTransport::Engine::Loop(Matching& matching) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point moved = Clock::now();
  while (true) {
    absl::Status status;
    if (attention_.exchange(false)) {
      if (!TakeRequests(matching, status)) return status;
      moved = Clock::now();
    }
    const absl::StatusOr<bool> progress = matching.Poll();
    if (!progress.ok()) return progress.status();
    if (absl::Status late = CheckWatched(); !late.ok()) return late;
    bool closing = false;
    {
      std::lock_guard lock(mutex_);
      if (!failure_.ok()) return absl::OkStatus();
      closing = phase_ == Phase::kClosing;
    }
    if (closing) {
      const absl::StatusOr<bool> ended = EndInOrder(matching);
      if (!ended.ok()) return ended.status();
      if (*ended) return absl::OkStatus();
    }
    const Clock::time_point now = Clock::now();
    if (*progress) moved = now;
    const auto still = now - moved;
    if (still < kSpin) continue;
    if (still < kYield) {
      sched_yield();
    } else {
      Sleep(matching.idle() && !closing ? kIdleSleep : options_.poll_sleep);
    }
  }
}

// False when the loop is over.
bool DeviceTransport::Engine::TakeRequests(Matching& matching, absl::Status& status) {
  std::deque<Operation*> posted;
  std::deque<std::function<void()>> tasks;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.ok()) return false;
    if (stop_) {
      reason_ = absl::StrCat("rank ", rank(), " has left");
      failure_ = absl::UnavailableError(reason_);
      return false;
    }
    posted.swap(posted_);
    tasks.swap(tasks_);
  }
  for (const std::function<void()>& task : tasks) task();
  if (!tasks.empty()) {
    std::lock_guard lock(mutex_);
    wake_caller_.notify_all();
  }
  for (Operation* operation : posted) {
    status = matching.Add(*operation);
    if (!status.ok()) return false;
  }
  return true;
}

absl::StatusOr<bool> DeviceTransport::Engine::EndInOrder(Matching& matching) {
  if (!said_bye_) {
    if (path_ != nullptr) {
      const absl::StatusOr<bool> finished = path_->Finish();
      if (!finished.ok() || !*finished) return finished;
    }
    if (absl::Status said = matching.SayBye(); !said.ok()) return said;
    said_bye_ = true;
  }
  return matching.quiet();
}

void DeviceTransport::Engine::EndFailed(Matching& matching) {
  std::string reason;
  absl::Status failure;
  bool stop = false;
  {
    std::lock_guard lock(mutex_);
    reason = reason_;
    failure = failure_;
    stop = stop_;
    attention_ = false;
  }
  matching.TellFailure(reason);
  const absl::Time until = absl::Now() + (stop ? absl::ZeroDuration() : options_.agreement);
  while (!matching.everybody_failed() && absl::Now() < until) Sleep(options_.poll_sleep);
  if (path_ != nullptr) path_->Abort();
  control_.Abort(failure);
  matching.Abort();
}

absl::Status DeviceTransport::Engine::CheckWatched() {
  std::lock_guard lock(mutex_);
  if (watched_ == 0) return absl::OkStatus();
  const absl::Time now = absl::Now();
  for (const auto& [id, operation] : operations_) {
    if (!operation->watched || now < operation->deadline) continue;
    return absl::DeadlineExceededError(absl::StrCat(Unfinished(*operation), ": not finished before the deadline"));
  }
  return absl::OkStatus();
}

void DeviceTransport::Engine::Sleep(absl::Duration time) {
  std::unique_lock lock(mutex_);
  wake_thread_.wait_for(lock, absl::ToChronoNanoseconds(time), [&] { return attention_.load(); });
}

void DeviceTransport::Engine::Queued(Part& part) {
  std::lock_guard lock(mutex_);
  part.queued = true;
  wake_caller_.notify_all();
}

void DeviceTransport::Engine::Done(Part& part) {
  std::lock_guard lock(mutex_);
  Operation& operation = *part.operation;
  part.done = true;
  if (part.transfer.kind == Transfer::Kind::kRecv) operation.received += part.bytes;
  if (--operation.undone > 0) return;
  if (operation.watched) {
    --watched_;
    ForgetLocked(operation);
  }
  wake_caller_.notify_all();
}

void DeviceTransport::Engine::ForgetLocked(Operation& operation) {
  if (operation.after != nullptr) free_events_.push_back(operation.after);
  operations_.erase(operation.id);
}

void DeviceTransport::Engine::PeerFailed(int peer, const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return;
  const std::string unfinished = UnfinishedLocked();
  reason_ = reason;
  FailLocked(absl::UnavailableError(
      absl::StrCat(unfinished.empty() ? absl::StrCat("rank ", peer) : unfinished, ": ", reason)));
}

std::string DeviceTransport::Engine::Unfinished(const Operation& operation) {
  // A gather among many ranks has as many; the first few say enough.
  constexpr size_t kNamed = 4;
  std::string text;
  size_t count = 0;
  for (const Part& part : operation.parts) {
    if (part.done || ++count > kNamed) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", Describe(part.transfer));
  }
  if (count > kNamed) absl::StrAppend(&text, " and ", count - kNamed, " more");
  return text;
}

std::string DeviceTransport::Engine::UnfinishedLocked() const {
  for (const auto& [id, operation] : operations_) {
    if (operation->undone > 0) return Unfinished(*operation);
  }
  return {};
}

void DeviceTransport::Engine::Fail(absl::Status status) {
  std::lock_guard lock(mutex_);
  FailLocked(std::move(status));
}

void DeviceTransport::Engine::FailLocked(absl::Status status) {
  if (failure_.ok()) {
    failure_ = std::move(status);
    if (reason_.empty()) reason_ = absl::StrCat("rank ", rank(), " failed: ", failure_.message());
  }
  attention_ = true;
  wake_thread_.notify_all();
  wake_caller_.notify_all();
}

}  // namespace rondo
