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
  for (const auto& [number, registration] : registrations_) {
    if (registration.comm == &comm) host_.Violation("a communicator was finalized with memory registered");
  }
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
  std::erase_if(registrations_, [&](const auto& entry) {
    if (entry.second.comm != &comm) return false;
    DropRegistration(entry.second);
    return true;
  });
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommRegister(NcclComm* handle, std::byte* memory, size_t bytes, void** out) {
  Inside inside(*this, handle, "ncclCommRegister", false);
  if (!inside.ok || refuses_registration) return NcclResult::kInvalidUsage;
  const absl::StatusOr<CudaAllocation> allocation = inside.comm.process->AllocationOf(memory);
  if (!allocation.ok() || memory != allocation->base || bytes > allocation->bytes) return NcclResult::kInvalidArgument;
  std::lock_guard lock(mutex_);
  for (const auto& [number, registration] : registrations_) {
    if (registration.comm == &inside.comm && registration.base == memory) {
      host_.Violation("memory was registered twice with a communicator");
    }
  }
  {
    std::lock_guard host_lock(host_.mutex);
    ++host_.registered[memory];
  }
  const uint64_t number = next_registration_++;
  registrations_[number] = {&inside.comm, memory};
  *out = reinterpret_cast<void*>(number);
  if (!Later()) return NcclResult::kSuccess;
  inside.comm.waiting = [looks = 2]() mutable { return looks-- == 0; };
  return NcclResult::kInProgress;
}

void FakeNccl::DropRegistration(const Registration& registration) {
  std::lock_guard lock(host_.mutex);
  if (--host_.registered[registration.base] == 0) host_.registered.erase(registration.base);
}

NcclResult FakeNccl::CommDeregister(NcclComm* handle, void* number) {
  Inside inside(*this, handle, "ncclCommDeregister", false);
  std::lock_guard lock(mutex_);
  const auto found = registrations_.find(reinterpret_cast<uint64_t>(number));
  if (found == registrations_.end() || found->second.comm != &inside.comm) {
    host_.Violation("ncclCommDeregister of what is not registered");
    return NcclResult::kInvalidArgument;
  }
  DropRegistration(found->second);
  registrations_.erase(found);
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::MemAlloc(std::byte** memory, size_t bytes) {
  FakeCuda* const process = FakeHost::This().process;
  const absl::StatusOr<std::byte*> made = process->MakeUnshareable(bytes);
  if (!made.ok()) return NcclResult::kUnhandledCudaError;
  *memory = *made;
  std::lock_guard lock(mutex_);
  memory_[*made] = process;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::MemFree(std::byte* memory) {
  FakeCuda* process = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto found = memory_.find(memory);
    if (found == memory_.end()) return NcclResult::kInvalidArgument;
    process = found->second;
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

int FakeNccl::registrations() {
  std::lock_guard lock(mutex_);
  return static_cast<int>(next_registration_ - 1);
}

int FakeNccl::in_progress_answers() {
  std::lock_guard lock(mutex_);
  return in_progress_;
}

}  // namespace rondo::testing
