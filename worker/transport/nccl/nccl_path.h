// Messages of device memory through one NCCL communicator: each post is one group of sends and receives on a stream of
// its own; NcclTransport gives it to a DeviceTransport.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "worker/transport/device/device_path.h"
#include "worker/transport/nccl/nccl_api.h"
#include "worker/transport/nccl/registrations.h"

namespace rondo {

struct NcclOptions {
  // Blocks that NCCL's kernels occupy, so multiprocessors taken from attention; NVLink is filled by about this many.
  int max_ctas = 8;
};

// The communicator does not block (blocking = 0): every call may leave it in progress, and Poll looks again.
// Device memory that messages leave from or arrive in is registered with the communicator when it is first used, so
// they are not copied through NCCL's buffers.
class NcclPath : public DevicePath {
 public:
  // All ranks, each with its device in use; `id` was drawn by one of them. DEADLINE_EXCEEDED when a rank does not come.
  static absl::StatusOr<std::unique_ptr<NcclPath>> Create(NcclApi& nccl, CudaApi& cuda, int rank, int ranks,
                                                          const NcclUniqueId& id, const NcclOptions& options,
                                                          absl::Time deadline);
  ~NcclPath() override;

  bool in_order() const override { return true; }
  bool receiver_reads() const override { return false; }
  absl::StatusOr<std::vector<std::byte>> Offer(const DeviceMove&, CudaEvent*) override {
    return std::vector<std::byte>();
  }
  absl::Status Start(absl::Span<DeviceMove* const> moves, CudaEvent* after) override;
  void Taken(DeviceMove&) override {}
  absl::StatusOr<bool> Poll() override;
  absl::StatusOr<std::byte*> Allocate(size_t bytes, absl::Time deadline) override;
  void Free(std::byte* memory) override;
  absl::Status Forget(std::byte* base, absl::Time deadline) override;
  absl::StatusOr<bool> Finish() override;
  void Abort() override;

 private:
  struct Group {
    std::vector<DeviceMove*> moves;
    CudaEvent* after = nullptr;
    CudaEvent* done = nullptr;
  };

  NcclPath(NcclApi& nccl, CudaApi& cuda) : nccl_(nccl), cuda_(cuda), registrations_(nccl, cuda) {}
  // Registers the memory of a group, an allocation at a time. False: one was, and the communicator may be in progress.
  bool Registered(const Group& group);
  absl::Status Launch(Group& group);
  absl::Status Launched();
  absl::StatusOr<bool> Settled();  // false: the communicator is in progress
  absl::Status Settle(const char* what, absl::Time deadline);
  absl::StatusOr<CudaEvent*> TakeEvent();

  NcclApi& nccl_;
  CudaApi& cuda_;
  NcclComm* comm_ = nullptr;
  CudaStream* stream_ = nullptr;
  std::deque<Group> waiting_;  // not yet given to NCCL
  bool launching_ = false;     // running_.back() is: its kernel may not be on the stream yet
  std::deque<Group> running_;
  std::vector<CudaEvent*> free_events_;
  std::vector<CudaEvent*> retired_events_;  // free after the next Poll: somebody may be about to wait for them
  NcclRegistrations registrations_;
  std::set<std::byte*> allocated_;  // by Allocate
  bool finalizing_ = false;
};

}  // namespace rondo
