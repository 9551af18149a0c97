// Messages of device memory between ranks of one machine by CUDA IPC: the receiver opens the sender's memory and copies
// from it; several ranks may share a GPU. MakeCudaIpcTransport gives it to a DeviceTransport.
//
// Copies go through the GPU's copy engines and take no multiprocessor. The note of a message, 160 bytes:
//   offset 0: the sender's process (u64)  8: address of the message (u64), for a receiver in the same process
//   16: address of the event to wait for (u64), 0: none  24: offset in the allocation (u64)
//   32: memory handle (64 bytes)  96: event handle (64 bytes), as CUDA gives them; zero where the process is the same
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "worker/transport/device/device_path.h"

namespace rondo {

// Memory that messages leave from stays allocated until the transport ends: receivers keep it open. It is memory of
// cudaMalloc, or of Allocate.
class CudaIpcPath : public DevicePath {
 public:
  // processes[r] is rank r's: ranks of one process hand each other addresses.
  CudaIpcPath(CudaApi& cuda, int rank, std::vector<uint64_t> processes);
  ~CudaIpcPath() override;

  bool in_order() const override { return false; }
  bool receiver_reads() const override { return true; }
  absl::StatusOr<std::vector<std::byte>> Offer(const DeviceMove& send, CudaEvent* after) override;
  absl::Status Start(absl::Span<DeviceMove* const> moves, CudaEvent* after) override;
  void Taken(DeviceMove& send) override;
  absl::StatusOr<bool> Poll() override;
  absl::StatusOr<std::byte*> Allocate(size_t bytes, absl::Time deadline) override;
  void Free(std::byte* memory) override;
  absl::Status Forget(std::byte* base, absl::Time deadline) override;
  absl::StatusOr<bool> Finish() override;
  void Abort() override;

 private:
  struct Note;
  // What comes from one rank, in order.
  struct Peer {
    CudaStream* stream = nullptr;
    std::deque<DeviceMove*> copies;
  };

  absl::Status StartOne(DeviceMove& move, CudaEvent* after);
  absl::StatusOr<const std::byte*> Memory(const Note& note);
  absl::StatusOr<CudaEvent*> Event(const Note& note);
  absl::StatusOr<CudaEvent*> TakeEvent();
  void WaitForCopies();

  CudaApi& cuda_;
  const int rank_;
  const std::vector<uint64_t> processes_;
  std::vector<Peer> peers_;
  // What other processes have shared, by handle.
  std::map<std::array<uint8_t, 64>, std::byte*> opened_memory_;
  std::map<CudaIpcEvent, CudaEvent*> opened_events_;
  std::vector<CudaEvent*> free_events_;
  std::vector<CudaEvent*> retired_events_;  // free after the next Poll: somebody may be about to wait for them
  std::set<const std::byte*> shared_;       // allocations that messages left from for other processes
  std::vector<std::byte*> freed_;           // others may still have it open
};

}  // namespace rondo
