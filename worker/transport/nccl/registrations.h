// Which allocations of this rank's device are registered with its communicator, so that messages from and to them are
// not copied through NCCL's own buffers; NcclPath's own.
#pragma once

#include <map>

#include "worker/transport/nccl/nccl_api.h"

namespace rondo {

// Whole allocations, on first use: a ring's buffers are pieces of few of them. One thread.
class NcclRegistrations {
 public:
  NcclRegistrations(NcclApi& nccl, CudaApi& cuda) : nccl_(nccl), cuda_(cuda) {}

  // Registers what `memory` lies in, unless that was tried already. False: the communicator may be in progress and must
  // settle before the next call. Memory that cannot be registered is sent as it is; the first such gets a log line.
  bool Ensure(NcclComm* comm, const std::byte* memory);
  // The same for a whole allocation whose registration must succeed.
  absl::Status Register(NcclComm* comm, std::byte* base, size_t bytes);
  // Before the allocation at `base` is freed. Null `comm`: it has ended, and its registrations with it.
  void Forget(NcclComm* comm, std::byte* base);
  void ForgetAll(NcclComm* comm);

 private:
  struct Registration {
    size_t bytes = 0;
    void* handle = nullptr;  // null: it could not be registered
  };
  // The entry that `memory` lies in, or null.
  const Registration* Find(const std::byte* memory) const;
  void Deregister(NcclComm* comm, void* handle);

  NcclApi& nccl_;
  CudaApi& cuda_;
  std::map<const std::byte*, Registration> by_base_;
  bool told_ = false;
};

}  // namespace rondo
