#include "tests/testing/fake_nccl.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/testing/fake_nccl_comm.h"

namespace rondo::testing {

FakeNccl::FakeNccl(FakeHost& host, uint64_t seed) : host_(host), random_(seed) {}
FakeNccl::~FakeNccl() = default;

bool FakeNccl::Later() {
  const bool later = random_() % 2 == 0;
  if (later) ++in_progress_;
  return later;
}

NcclResult FakeNccl::GetVersion(int* out) {
  *out = version;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::GetUniqueId(NcclUniqueId* id) {
  std::lock_guard lock(mutex_);
  const uint64_t number = next_id_++;
  std::memcpy(id->bytes.data() + 64, &number, sizeof(number));
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommInitRankConfig(NcclComm** handle, int ranks, const NcclUniqueId& id, int rank, int max_ctas) {
  if (rank < 0 || rank >= ranks || max_ctas < 1) return NcclResult::kInvalidArgument;
  std::lock_guard lock(mutex_);
  std::shared_ptr<Clique>& clique = cliques_[std::string(id.bytes.data(), id.bytes.size())];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  clique->members.resize(ranks);
  auto comm = std::make_unique<Comm>();
  comm->clique = clique;
  comm->process = FakeHost::This().process;
  comm->device = FakeHost::This().device;
  comm->rank = rank;
  clique->members[rank] = comm.get();
  ++in_progress_;
  comm->waiting = [this, c = comm.get(), looks = random_() % 4]() mutable {
    for (Comm* member : c->clique->members) {
      if (member == nullptr) return false;
      for (Comm* other : c->clique->members) {
        if (other == nullptr || other == member || other->device != member->device) continue;
        c->broken = NcclResult::kInvalidUsage;
        c->last_error = absl::StrCat("Duplicate GPU detected : rank ", member->rank, " and rank ", other->rank,
                                     " both on CUDA device ", member->device);
        return true;
      }
    }
    return looks-- == 0;
  };
  *handle = reinterpret_cast<NcclComm*>(comm.get());
  comms_.push_back(std::move(comm));
  return NcclResult::kInProgress;
}

NcclResult FakeNccl::CommGetAsyncError(NcclComm* handle, NcclResult* state) {
  Inside inside(*this, handle, "ncclCommGetAsyncError", true);
  std::unique_lock lock(mutex_);
  Comm& comm = inside.comm;
  if (comm.waiting && comm.waiting()) comm.waiting = nullptr;
  *state = comm.broken != NcclResult::kSuccess ? comm.broken
           : comm.waiting                      ? NcclResult::kInProgress
                                               : NcclResult::kSuccess;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommFinalize(NcclComm* handle) {
  Inside inside(*this, handle, "ncclCommFinalize", false);
  if (!inside.ok) return NcclResult::kInvalidUsage;
  std::lock_guard lock(mutex_);
  Comm& comm = inside.comm;
  comm.finalized = true;
  ++comm.clique->finalized;
  comm.waiting = [&comm] { return comm.clique->finalized == comm.clique->members.size() && comm.launched == 0; };
  return NcclResult::kInProgress;
}

NcclResult FakeNccl::CommDestroy(NcclComm* handle) {
  Inside inside(*this, handle, "ncclCommDestroy", false);
  std::lock_guard lock(mutex_);
  if (!inside.comm.finalized) host_.Violation("ncclCommDestroy would block: the communicator was not finalized");
  inside.comm.gone = true;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommAbort(NcclComm* handle) {
  Inside inside(*this, handle, "ncclCommAbort", true);
  std::unique_lock lock(mutex_);
  Comm& comm = inside.comm;
  if (comm.inside > 1) host_.Violation("ncclCommAbort while another thread is inside the communicator");
  comm.gone = true;
  comm.waiting = nullptr;
  wake_.notify_all();
  wake_.wait(lock, [&] { return comm.running == 0; });
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommRegister(NcclComm* handle, std::byte* memory, size_t, void** out) {
  Inside inside(*this, handle, "ncclCommRegister", false);
  if (!inside.ok) return NcclResult::kInvalidUsage;
  std::lock_guard lock(mutex_);
  const auto found = memory_.find(memory);
  if (found == memory_.end()) return NcclResult::kInvalidArgument;
  ++found->second.second;
  *out = memory;
  if (!Later()) return NcclResult::kSuccess;
  inside.comm.waiting = [looks = 2]() mutable { return looks-- == 0; };
  return NcclResult::kInProgress;
}

NcclResult FakeNccl::CommDeregister(NcclComm* handle, void* registration) {
  Inside inside(*this, handle, "ncclCommDeregister", false);
  std::lock_guard lock(mutex_);
  --memory_[static_cast<std::byte*>(registration)].second;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::MemAlloc(std::byte** memory, size_t bytes) {
  FakeCuda* const process = FakeHost::This().process;
  const absl::StatusOr<std::byte*> made = process->MakeUnshareable(bytes);
  if (!made.ok()) return NcclResult::kUnhandledCudaError;
  *memory = *made;
  std::lock_guard lock(mutex_);
  memory_[*made] = {process, 0};
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::MemFree(std::byte* memory) {
  FakeCuda* process = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto found = memory_.find(memory);
    if (found == memory_.end()) return NcclResult::kInvalidArgument;
    process = found->second.first;
    memory_.erase(found);
  }
  process->DropUnshareable(memory);
  return NcclResult::kSuccess;
}

std::string FakeNccl::ErrorString(NcclResult result) {
  switch (result) {
    case NcclResult::kSuccess:
      return "no error";
    case NcclResult::kRemoteError:
      return "remote process exited or there was a network error";
    case NcclResult::kInvalidUsage:
      return "invalid usage";
    case NcclResult::kInProgress:
      return "NCCL operation in progress";
    default:
      return absl::StrCat("error ", static_cast<int>(result));
  }
}

std::string FakeNccl::LastError(NcclComm* handle) {
  std::lock_guard lock(mutex_);
  return handle == nullptr ? "" : reinterpret_cast<Comm*>(handle)->last_error;
}

void FakeNccl::BreakRank(int rank, NcclResult result, std::string last_error) {
  std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Comm>& comm : comms_) {
    if (comm->rank != rank || comm->gone) continue;
    comm->broken = result;
    comm->last_error = last_error;
  }
}

int FakeNccl::groups() {
  std::lock_guard lock(mutex_);
  return groups_;
}

int FakeNccl::open_comms() {
  std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(comms_.begin(), comms_.end(), [](const auto& comm) { return !comm->gone; }));
}

int FakeNccl::in_progress_answers() {
  std::lock_guard lock(mutex_);
  return in_progress_;
}

}  // namespace rondo::testing
