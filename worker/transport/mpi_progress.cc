#include "worker/transport/mpi_progress.h"

#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>

#include <chrono>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "worker/transport/mpi_wire.h"

namespace rondo {
namespace {

// How long after the last movement the thread polls without a pause, and then with sched_yield, before it sleeps
// between looks. A message between two running ranks takes microseconds; a rank that has lost its core comes back
// after a scheduler slice.
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr auto kYield = std::chrono::microseconds(150);
// Pieces with MPI may move without completing: keep looking for as long as a slow copy would take.
constexpr double kSlowBytesPerSecond = 500e6;
// A failed rank's callers wait this long for the thread to leave MPI; its calls do not block.
constexpr auto kQuietTime = std::chrono::seconds(1);

}  // namespace

absl::Status MpiTransport::Progress::Start() {
  std::unique_lock lock(mutex_);
  thread_ = std::thread([self = shared_from_this()] { self->ThreadMain(); });
  wake_caller_.wait_for(lock, absl::ToChronoNanoseconds(options_.init_timeout),
                        [&] { return phase_ != Phase::kStarting || !failure_.ok(); });
  if (!failure_.ok()) return failure_;
  if (phase_ == Phase::kStarting) {
    FailLocked(absl::DeadlineExceededError(
        absl::StrCat("MPI_Init: not all ranks came within ", absl::FormatDuration(options_.init_timeout))));
  }
  return failure_;
}

void MpiTransport::Progress::FailLocked(absl::Status status) {
  if (failure_.ok()) failure_ = std::move(status);
  attention_ = true;
  wake_thread_.notify_all();
  wake_caller_.notify_all();
}

// After a failure a caller may free its buffers, so it must not come back while MPI may still write to them.
void MpiTransport::Progress::WaitQuiet(std::unique_lock<std::mutex>& lock) {
  wake_caller_.wait_for(lock, kQuietTime, [&] { return quiet_; });
}

absl::StatusOr<uint64_t> MpiTransport::Progress::Post(absl::Span<const Transfer> transfers) {
  auto operation = std::make_unique<Operation>();
  operation->transfers.assign(transfers.begin(), transfers.end());
  operation->unfinished = transfers.size();
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (phase_ != Phase::kRunning) return absl::FailedPreconditionError("the MPI transport is closed");
  for (const Transfer& t : transfers) {
    RONDO_CHECK(t.peer >= 0 && t.peer < world_);
    if (t.kind == Transfer::Kind::kSend && t.peer != rank_) sent_bytes_ += t.size;
  }
  const uint64_t id = next_id_++;
  if (!transfers.empty()) {
    queue_.push_back(operation.get());
    attention_ = true;
    wake_thread_.notify_one();
  }
  operations_.emplace(id, std::move(operation));
  return id;
}

bool MpiTransport::Progress::Ready(uint64_t id) {
  std::lock_guard lock(mutex_);
  const auto found = operations_.find(id);
  RONDO_CHECK(found != operations_.end());
  return found->second->unfinished == 0 || !failure_.ok();
}

absl::StatusOr<size_t> MpiTransport::Progress::Wait(uint64_t id, absl::Time deadline) {
  std::unique_lock lock(mutex_);
  const auto found = operations_.find(id);
  RONDO_CHECK(found != operations_.end());
  Operation& operation = *found->second;
  const auto over = [&] { return operation.unfinished == 0 || !failure_.ok(); };
  if (deadline == absl::InfiniteFuture()) {
    wake_caller_.wait(lock, over);
  } else if (!wake_caller_.wait_until(lock, absl::ToChronoTime(deadline), over)) {
    FailLocked(absl::DeadlineExceededError(
        absl::StrCat(Describe(operation.transfers.front()), ": not finished before the deadline")));
  }
  if (!failure_.ok()) {
    WaitQuiet(lock);
    return failure_;
  }
  const size_t received = operation.received;
  operations_.erase(found);
  return received;
}

void MpiTransport::Progress::Abort(absl::Status reason) {
  std::lock_guard lock(mutex_);
  FailLocked(absl::UnavailableError(absl::StrCat("rank ", rank_, " aborted: ", reason.message())));
}

absl::Status MpiTransport::Progress::Close(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (phase_ == Phase::kEnded) return absl::OkStatus();
  if (!operations_.empty()) return absl::FailedPreconditionError("closing MPI with messages pending");
  phase_ = Phase::kClosing;
  attention_ = true;
  wake_thread_.notify_all();
  const auto over = [&] { return phase_ == Phase::kEnded || !failure_.ok(); };
  if (deadline == absl::InfiniteFuture()) {
    wake_caller_.wait(lock, over);
  } else if (!wake_caller_.wait_until(lock, absl::ToChronoTime(deadline), over)) {
    FailLocked(absl::DeadlineExceededError("MPI_Finalize: not all ranks came before the deadline"));
  }
  return failure_;
}

void MpiTransport::Progress::Join() {
  {
    std::unique_lock lock(mutex_);
    stop_ = true;
    attention_ = true;
    wake_thread_.notify_all();
    WaitQuiet(lock);
    if (!quiet_) thread_.detach();  // hangs inside MPI_Init or MPI_Finalize; it keeps this object alive
  }
  if (thread_.joinable()) thread_.join();
}

// Starts MPI, or joins the program that did.
absl::Status MpiTransport::Progress::StartMpi() {
  const int needed = options_.communicator ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
  int provided = MPI_THREAD_SINGLE;
  absl::Status status = options_.communicator
                            ? MpiStatus(MPI_Query_thread(&provided), "MPI_Query_thread")
                            : MpiStatus(MPI_Init_thread(nullptr, nullptr, needed, &provided), "MPI_Init_thread");
  if (status.ok() && provided < needed) {
    status = absl::FailedPreconditionError(
        absl::StrCat("MPI gives thread level ", provided, ", needed: ", needed,
                     options_.communicator ? " (multiple): initialise it with MPI_Init_thread" : " (funneled)"));
  }
  if (!status.ok()) return status;
  MPI_Comm comm = MPI_COMM_WORLD;
  if (options_.communicator) {
    status = MpiStatus(MPI_Comm_dup(MPI_Comm_f2c(*options_.communicator), &comm), "MPI_Comm_dup");
    if (!status.ok()) return status;
  }
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &world_);
  comm_ = MPI_Comm_c2f(comm);
  return absl::OkStatus();
}

void MpiTransport::Progress::ThreadMain() {
  prctl(PR_SET_NAME, "rondo-mpi");
  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds; the default of 50 us would half again lengthen every short sleep
  const absl::Status status = StartMpi();
  {
    std::lock_guard lock(mutex_);
    if (status.ok()) {
      phase_ = Phase::kRunning;
    } else {
      FailLocked(status);
    }
    wake_caller_.notify_all();
  }
  // Not destroyed after a failure: MPI still holds pointers into its envelopes.
  auto wire = std::make_unique<Wire>(world_, options_.chunk_bytes, MPI_Comm_f2c(comm_));
  if (status.ok()) Loop(*wire);
  std::lock_guard lock(mutex_);
  if (!wire->idle()) wire.release();
  quiet_ = true;
  wake_caller_.notify_all();
}

void MpiTransport::Progress::Loop(Wire& wire) {
  using Clock = std::chrono::steady_clock;
  const std::function<void(Operation*, size_t)> finished = [&](Operation* o, size_t bytes) { Finished(o, bytes); };
  Clock::time_point moved = Clock::now();
  while (true) {
    if (attention_.exchange(false)) {
      if (!TakeRequests(wire)) return;
      moved = Clock::now();
    }
    if (wire.idle()) {
      Sleep(true);
      continue;
    }
    const absl::StatusOr<bool> progress = wire.Poll(finished);
    if (!progress.ok()) {
      std::lock_guard lock(mutex_);
      FailLocked(progress.status());
      return;
    }
    const Clock::time_point now = Clock::now();
    if (*progress) moved = now;
    const auto still = now - moved;
    const auto patience = std::chrono::duration<double>(wire.moving_bytes() / kSlowBytesPerSecond);
    if (still < kSpin) continue;
    if (still < kYield + patience) {
      sched_yield();
    } else {
      Sleep(false);
    }
  }
}

// False when the loop is over.
bool MpiTransport::Progress::TakeRequests(Wire& wire) {
  std::deque<Operation*> requests;
  {
    std::unique_lock lock(mutex_);
    if (!failure_.ok() || stop_) return false;
    if (phase_ == Phase::kClosing) {
      lock.unlock();
      Finalize();
      return false;
    }
    requests.swap(queue_);
  }
  for (Operation* operation : requests) {
    for (const Transfer& transfer : operation->transfers) {
      if (absl::Status started = wire.Start(transfer, operation); !started.ok()) {
        std::lock_guard lock(mutex_);
        FailLocked(started);
        return false;
      }
    }
  }
  return true;
}

void MpiTransport::Progress::Sleep(bool forever) {
  std::unique_lock lock(mutex_);
  const auto awake = [&] { return attention_.load(); };
  if (forever) {
    wake_thread_.wait(lock, awake);
  } else {
    wake_thread_.wait_for(lock, absl::ToChronoNanoseconds(options_.poll_sleep), awake);
  }
}

// A barrier that can be given up comes first: MPI_Finalize itself waits for all ranks and cannot.
void MpiTransport::Progress::Finalize() {
  MPI_Request barrier = MPI_REQUEST_NULL;
  absl::Status status = MpiStatus(MPI_Ibarrier(MPI_Comm_f2c(comm_), &barrier), "MPI_Ibarrier");
  int done = 0;
  while (status.ok() && done == 0) {
    status = MpiStatus(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) Sleep(false);
    std::lock_guard lock(mutex_);
    if (!failure_.ok() || stop_) return;
  }
  if (status.ok()) {
    MPI_Comm comm = MPI_Comm_f2c(comm_);
    status = options_.communicator ? MpiStatus(MPI_Comm_free(&comm), "MPI_Comm_free")
                                   : MpiStatus(MPI_Finalize(), "MPI_Finalize");
  }
  std::lock_guard lock(mutex_);
  if (status.ok()) {
    phase_ = Phase::kEnded;
  } else {
    FailLocked(status);
  }
  wake_caller_.notify_all();
}

void MpiTransport::Progress::Finished(Operation* operation, size_t received) {
  std::lock_guard lock(mutex_);
  operation->received += received;
  if (--operation->unfinished == 0) wake_caller_.notify_all();
}

}  // namespace rondo
