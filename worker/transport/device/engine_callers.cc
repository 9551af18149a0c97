// The callers' side of the engine: posting, waiting, aborting.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "worker/transport/device/engine.h"

namespace rondo {
namespace {

// A failed rank's callers wait this much longer than the agreement for its transfers to end.
constexpr absl::Duration kQuietTime = absl::Seconds(5);

}  // namespace

template <typename Over>
bool DeviceTransport::Engine::WaitLocked(std::unique_lock<std::mutex>& lock, absl::Time deadline, const Over& over) {
  if (deadline != absl::InfiniteFuture()) return wake_caller_.wait_until(lock, absl::ToChronoTime(deadline), over);
  wake_caller_.wait(lock, over);
  return true;
}

// After a failure a caller may free its buffers, so it must not come back while something may still write to them.
void DeviceTransport::Engine::WaitQuiet(std::unique_lock<std::mutex>& lock) {
  WaitLocked(lock, absl::Now() + options_.agreement + kQuietTime, [&] { return quiet_; });
}

absl::StatusOr<uint64_t> DeviceTransport::Engine::Post(absl::Span<const Transfer> transfers) {
  // CUDA's current device is each thread's own.
  if (absl::Status used = cuda_.Use(options_.device); !used.ok()) return used;
  auto operation = std::make_unique<Operation>();
  for (const Transfer& transfer : transfers) {
    RONDO_CHECK(transfer.peer >= 0 && transfer.peer < world());
    Part& part = operation->parts.emplace_back();
    part.transfer = transfer;
    part.operation = operation.get();
    if (transfer.size == 0) continue;
    const absl::StatusOr<bool> in_device = cuda_.InDeviceMemory(transfer.data);
    if (!in_device.ok()) return in_device.status();
    part.in_device = *in_device;
  }
  operation->undone = operation->parts.size();
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (phase_ != Phase::kRunning) return absl::FailedPreconditionError("the transport is closed");
  for (const Transfer& transfer : transfers) {
    if (transfer.kind == Transfer::Kind::kSend && transfer.peer != rank()) sent_bytes_ += transfer.size;
  }
  const uint64_t id = operation->id = next_id_++;
  operation->after = std::exchange(next_after_, nullptr);
  if (!operation->parts.empty()) {
    posted_.push_back(operation.get());
    attention_ = true;
    wake_thread_.notify_one();
  }
  operations_.emplace(id, std::move(operation));
  return id;
}

bool DeviceTransport::Engine::Ready(uint64_t id) {
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return true;
  const auto found = operations_.find(id);
  RONDO_CHECK(found != operations_.end());
  return found->second->undone == 0;
}

absl::StatusOr<size_t> DeviceTransport::Engine::Wait(uint64_t id, absl::Time deadline) {
  std::unique_lock lock(mutex_);
  const auto found = operations_.find(id);
  RONDO_CHECK(found != operations_.end());
  Operation& operation = *found->second;
  if (!WaitLocked(lock, deadline, [&] { return operation.undone == 0 || !failure_.ok(); })) {
    FailLocked(absl::DeadlineExceededError(absl::StrCat(Unfinished(operation), ": not finished before the deadline")));
  }
  if (!failure_.ok()) {
    WaitQuiet(lock);
    return failure_;
  }
  const size_t received = operation.received;
  ForgetLocked(operation);
  return received;
}

absl::StatusOr<size_t> DeviceTransport::Engine::WaitOn(CudaStream* stream, uint64_t id, absl::Time deadline) {
  std::unique_lock lock(mutex_);
  const auto found = operations_.find(id);
  RONDO_CHECK(found != operations_.end());
  Operation& operation = *found->second;
  const auto on_their_way = [&] {
    for (const Part& part : operation.parts) {
      if (!part.done && !part.queued) return false;
    }
    return true;
  };
  if (!WaitLocked(lock, deadline, [&] { return on_their_way() || !failure_.ok(); })) {
    FailLocked(absl::DeadlineExceededError(absl::StrCat(Unfinished(operation), ": not begun before the deadline")));
  }
  if (!failure_.ok()) {
    WaitQuiet(lock);
    return failure_;
  }
  size_t received = 0;
  for (const Part& part : operation.parts) {
    if (part.transfer.kind == Transfer::Kind::kRecv) received += part.bytes;
    if (part.done) continue;
    // Under the mutex: the path gives the event to another transfer only after this part is done.
    if (absl::Status waits = cuda_.WaitFor(stream, part.move.event); !waits.ok()) {
      FailLocked(waits);
      return failure_;
    }
  }
  if (operation.undone == 0) {
    ForgetLocked(operation);
  } else {
    operation.watched = true;
    operation.deadline = deadline;
    ++watched_;
  }
  return received;
}

absl::Status DeviceTransport::Engine::StartAfter(CudaStream* stream) {
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (next_after_ == nullptr) {
    const absl::StatusOr<CudaEvent*> event = EventLocked();
    if (!event.ok()) return event.status();
    next_after_ = *event;
  }
  return cuda_.Record(next_after_, stream);
}

absl::StatusOr<CudaEvent*> DeviceTransport::Engine::EventLocked() {
  if (!free_events_.empty()) {
    CudaEvent* const event = free_events_.back();
    free_events_.pop_back();
    return event;
  }
  // One that another process can wait for, as a CUDA IPC receiver must.
  return cuda_.MakeEvent(true);
}

void DeviceTransport::Engine::Abort(const absl::Status& reason) {
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return;
  reason_ = absl::StrCat("rank ", rank(), " aborted the group: ", reason.message());
  FailLocked(absl::UnavailableError(reason_));
}

absl::Status DeviceTransport::Engine::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

absl::Status DeviceTransport::Engine::Close(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (phase_ == Phase::kEnded) return absl::OkStatus();
  WaitLocked(lock, deadline, [&] { return watched_ == 0 || !failure_.ok(); });
  if (!failure_.ok()) return failure_;
  if (!operations_.empty()) return absl::FailedPreconditionError("closing the transport with messages pending");
  phase_ = Phase::kClosing;
  attention_ = true;
  wake_thread_.notify_all();
  if (!WaitLocked(lock, deadline, [&] { return phase_ == Phase::kEnded || !failure_.ok(); })) {
    FailLocked(absl::DeadlineExceededError("closing the transport: not all ranks came before the deadline"));
  }
  if (!failure_.ok()) WaitQuiet(lock);
  return failure_;
}

bool DeviceTransport::Engine::RunInThread(std::function<void()> task, absl::Time deadline) {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::kEnded) {
    task();
    return true;
  }
  // Outlives this call where the deadline ends it.
  auto done = std::make_shared<std::atomic<bool>>(false);
  tasks_.push_back([task = std::move(task), done] {
    task();
    *done = true;
  });
  attention_ = true;
  wake_thread_.notify_all();
  return WaitLocked(lock, deadline, [&] { return done->load(); });
}

void DeviceTransport::Engine::Join() {
  {
    std::unique_lock lock(mutex_);
    stop_ = true;
    attention_ = true;
    wake_thread_.notify_all();
    WaitQuiet(lock);
    if (!quiet_ && thread_.joinable()) thread_.detach();  // hangs inside NCCL or CUDA; it keeps this object alive
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace rondo
