#include "worker/transport/nccl/registrations.h"

#include <iterator>
#include <utility>

#include "base/log.h"

namespace rondo {

const NcclRegistrations::Registration* NcclRegistrations::Find(const std::byte* memory) const {
  const auto after = by_base_.upper_bound(memory);
  if (after == by_base_.begin()) return nullptr;
  const auto& [base, registration] = *std::prev(after);
  return memory < base + registration.bytes ? &registration : nullptr;
}

absl::Status NcclRegistrations::Register(NcclComm* comm, std::byte* base, size_t bytes) {
  void* handle = nullptr;
  absl::Status status = NcclStatus(nccl_, comm, "ncclCommRegister", nccl_.CommRegister(comm, base, bytes, &handle));
  by_base_[base] = {bytes, status.ok() ? handle : nullptr};
  return status;
}

bool NcclRegistrations::Ensure(NcclComm* comm, const std::byte* memory) {
  if (Find(memory) != nullptr) return true;
  const absl::StatusOr<CudaAllocation> allocation = cuda_.AllocationOf(memory);
  absl::Status status = allocation.status();
  if (allocation.ok()) {
    status = Register(comm, allocation->base, allocation->bytes);
  } else {
    by_base_[memory] = {1, nullptr};  // not asked again
  }
  if (!status.ok() && !std::exchange(told_, true)) {
    LogInfo("NCCL copies messages through its own buffers, as the memory they lie in cannot be registered: ",
            std::string(status.message()));
  }
  return false;
}

void NcclRegistrations::Deregister(NcclComm* comm, void* handle) {
  if (comm == nullptr || handle == nullptr) return;
  const absl::Status status = NcclStatus(nccl_, comm, "ncclCommDeregister", nccl_.CommDeregister(comm, handle));
  if (!status.ok()) LogWarning(std::string(status.message()));
}

void NcclRegistrations::Forget(NcclComm* comm, std::byte* base) {
  const auto found = by_base_.find(base);
  if (found == by_base_.end()) return;
  Deregister(comm, found->second.handle);
  by_base_.erase(found);
}

void NcclRegistrations::ForgetAll(NcclComm* comm) {
  for (const auto& [base, registration] : by_base_) Deregister(comm, registration.handle);
  by_base_.clear();
}

}  // namespace rondo
