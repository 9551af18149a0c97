#include "worker/transport/nccl/nccl_path.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace rondo {
namespace {

// Between two looks at a communicator that comes up or registers memory, which takes milliseconds.
constexpr absl::Duration kSettleSleep = absl::Microseconds(200);

}  // namespace

absl::StatusOr<std::unique_ptr<NcclPath>> NcclPath::Create(NcclApi& nccl, CudaApi& cuda, int rank, int ranks,
                                                           const NcclUniqueId& id, const NcclOptions& options,
                                                           absl::Time deadline) {
  std::unique_ptr<NcclPath> path(new NcclPath(nccl, cuda));
  const NcclResult result = nccl.CommInitRankConfig(&path->comm_, ranks, id, rank, options.max_ctas);
  if (absl::Status status = NcclStatus(nccl, nullptr, "ncclCommInitRankConfig", result); !status.ok()) return status;
  if (absl::Status up = path->Settle("ncclCommInitRankConfig", deadline); !up.ok()) return up;
  const absl::StatusOr<CudaStream*> stream = cuda.MakeStream();
  if (!stream.ok()) return stream.status();
  path->stream_ = *stream;
  return path;
}

NcclPath::~NcclPath() { Abort(); }

absl::StatusOr<bool> NcclPath::Settled() {
  NcclResult state = NcclResult::kSuccess;
  const NcclResult result = nccl_.CommGetAsyncError(comm_, &state);
  if (absl::Status status = NcclStatus(nccl_, comm_, "ncclCommGetAsyncError", result); !status.ok()) return status;
  if (absl::Status status = NcclStatus(nccl_, comm_, "NCCL", state); !status.ok()) return status;
  return state == NcclResult::kSuccess;
}

absl::Status NcclPath::Settle(const char* what, absl::Time deadline) {
  while (true) {
    const absl::StatusOr<bool> settled = Settled();
    if (!settled.ok()) return settled.status();
    if (*settled) return absl::OkStatus();
    if (absl::Now() >= deadline)
      return absl::DeadlineExceededError(absl::StrCat(what, ": not done before the deadline"));
    absl::SleepFor(kSettleSleep);
  }
}

absl::Status NcclPath::Start(absl::Span<DeviceMove* const> moves, CudaEvent* after) {
  waiting_.push_back({{moves.begin(), moves.end()}, after, nullptr});
  return absl::OkStatus();
}

absl::StatusOr<bool> NcclPath::Poll() {
  free_events_.insert(free_events_.end(), retired_events_.begin(), retired_events_.end());
  retired_events_.clear();
  if (waiting_.empty() && running_.empty()) return false;
  const absl::StatusOr<bool> settled = Settled();
  if (!settled.ok()) return settled;
  bool moved = false;
  if (launching_ && *settled) {
    moved = true;
    if (absl::Status launched = Launched(); !launched.ok()) return launched;
  }
  while (*settled && !launching_ && !waiting_.empty()) {
    moved = true;
    if (!Registered(waiting_.front())) break;  // the next look finds the communicator settled, or not yet
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    if (absl::Status launched = Launch(running_.back()); !launched.ok()) return launched;
  }
  while (!running_.empty() && running_.front().done != nullptr) {
    const absl::StatusOr<bool> reached = cuda_.Reached(running_.front().done);
    if (!reached.ok()) return reached;
    if (!*reached) break;
    moved = true;
    for (DeviceMove* move : running_.front().moves) move->state = DeviceMove::State::kDone;
    retired_events_.push_back(running_.front().done);
    running_.pop_front();
  }
  return moved;
}

bool NcclPath::Registered(const Group& group) {
  for (const DeviceMove* move : group.moves) {
    if (!registrations_.Ensure(comm_, move->data)) return false;
  }
  return true;
}

absl::Status NcclPath::Launch(Group& group) {
  if (group.after != nullptr) {
    if (absl::Status waits = cuda_.WaitFor(stream_, group.after); !waits.ok()) return waits;
  }
  absl::Status status = NcclStatus(nccl_, comm_, "ncclGroupStart", nccl_.GroupStart());
  if (!status.ok()) return status;
  for (const DeviceMove* move : group.moves) {
    status =
        move->send
            ? NcclStatus(nccl_, comm_, "ncclSend", nccl_.Send(move->data, move->bytes, move->peer, comm_, stream_))
            : NcclStatus(nccl_, comm_, "ncclRecv", nccl_.Recv(move->data, move->bytes, move->peer, comm_, stream_));
    if (!status.ok()) break;
  }
  // Also after an error: a group left open would swallow whatever comes next in this thread.
  const NcclResult ended = nccl_.GroupEnd();
  if (!status.ok()) return status;
  if (absl::Status whole = NcclStatus(nccl_, comm_, "ncclGroupEnd", ended); !whole.ok()) return whole;
  launching_ = true;
  return ended == NcclResult::kInProgress ? absl::OkStatus() : Launched();
}

// The group's kernel is on the stream by now, so an event put there is reached after it.
absl::Status NcclPath::Launched() {
  launching_ = false;
  Group& group = running_.back();
  const absl::StatusOr<CudaEvent*> event = TakeEvent();
  if (!event.ok()) return event.status();
  group.done = *event;
  if (absl::Status recorded = cuda_.Record(group.done, stream_); !recorded.ok()) return recorded;
  for (DeviceMove* move : group.moves) {
    move->event = group.done;
    move->state = DeviceMove::State::kQueued;
  }
  return absl::OkStatus();
}

absl::StatusOr<CudaEvent*> NcclPath::TakeEvent() {
  if (free_events_.empty()) return cuda_.MakeEvent(false);
  CudaEvent* const event = free_events_.back();
  free_events_.pop_back();
  return event;
}

absl::StatusOr<std::byte*> NcclPath::Allocate(size_t bytes, absl::Time deadline) {
  if (comm_ == nullptr) return absl::UnavailableError("allocating device memory: the NCCL communicator has ended");
  // A group in progress would be in the way of registering.
  if (absl::Status settled = Settle("allocating device memory", deadline); !settled.ok()) return settled;
  std::byte* memory = nullptr;
  absl::Status status = NcclStatus(nccl_, comm_, "ncclMemAlloc", nccl_.MemAlloc(&memory, bytes));
  if (!status.ok()) return status;
  allocated_.insert(memory);
  status = registrations_.Register(comm_, memory, bytes);
  if (status.ok()) status = Settle("ncclCommRegister", deadline);
  if (status.ok()) return memory;
  Free(memory);
  return status;
}

void NcclPath::Free(std::byte* memory) {
  if (allocated_.erase(memory) == 0) return;
  registrations_.Forget(comm_, memory);
  nccl_.MemFree(memory);
}

absl::Status NcclPath::Forget(std::byte* base, absl::Time deadline) {
  if (comm_ != nullptr) {
    if (absl::Status settled = Settle("freeing device memory", deadline); !settled.ok()) return settled;
  }
  registrations_.Forget(comm_, base);
  return absl::OkStatus();
}

absl::StatusOr<bool> NcclPath::Finish() {
  if (comm_ == nullptr) return true;
  const absl::StatusOr<bool> settled = Settled();
  if (!settled.ok() || !*settled) return settled;
  if (!finalizing_) {
    finalizing_ = true;
    registrations_.ForgetAll(comm_);
    const NcclResult result = nccl_.CommFinalize(comm_);
    if (absl::Status status = NcclStatus(nccl_, comm_, "ncclCommFinalize", result); !status.ok()) return status;
    if (result == NcclResult::kInProgress) return false;
  }
  const NcclResult result = nccl_.CommDestroy(std::exchange(comm_, nullptr));
  if (absl::Status status = NcclStatus(nccl_, nullptr, "ncclCommDestroy", result); !status.ok()) return status;
  return true;
}

// The device's kernels end, so the stream can be dropped without a wait.
void NcclPath::Abort() {
  if (comm_ != nullptr) nccl_.CommAbort(std::exchange(comm_, nullptr));
  registrations_.ForgetAll(nullptr);  // they went with it
  if (stream_ != nullptr) cuda_.Drop(std::exchange(stream_, nullptr));
  for (Group& group : running_) {
    if (group.done != nullptr) free_events_.push_back(group.done);
  }
  running_.clear();
  waiting_.clear();
  free_events_.insert(free_events_.end(), retired_events_.begin(), retired_events_.end());
  retired_events_.clear();
  for (CudaEvent* event : free_events_) cuda_.Drop(event);
  free_events_.clear();
}

}  // namespace rondo
