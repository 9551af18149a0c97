// How bytes of device memory get from one rank to another: the seam between DeviceTransport and NCCL or CUDA IPC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/transport/device/cuda_api.h"

namespace rondo {

// One end of one message of device memory, from when both ends are known until it is done. At least one byte.
struct DeviceMove {
  enum class State { kPosted, kQueued, kDone };
  bool send = false;
  int peer = 0;
  uint64_t number = 0;        // of the message, among those of its sender to its receiver
  std::byte* data = nullptr;  // this end's memory, on this rank's device
  size_t bytes = 0;
  std::vector<std::byte> note = {};  // what the sender's Offer said
  State state = State::kPosted;
  CudaEvent* event = nullptr;  // kQueued: reached when the data has moved
};

// The transport's thread makes every call, and no other thread is ever inside the path: so Abort finds nobody there.
// Nothing blocks for a peer.
class DevicePath {
 public:
  virtual ~DevicePath() = default;

  // Moves of one post begin together, and in the order of Start calls: for what matches them by order. Else each move
  // is started as soon as it is known.
  virtual bool in_order() const = 0;
  // The sender's memory is read by the receiver, and is free once the receiver has said so: Taken.
  virtual bool receiver_reads() const = 0;

  // For the sender, when it is posted: what the receiver must know. `after`: the memory holds the message when this is
  // reached; null: already. At most ControlLinks::kMostBody bytes.
  virtual absl::StatusOr<std::vector<std::byte>> Offer(const DeviceMove& send, CudaEvent* after) = 0;
  virtual absl::Status Start(absl::Span<DeviceMove* const> moves, CudaEvent* after) = 0;
  virtual void Taken(DeviceMove& send) = 0;
  // Brings moves on (state, event). False: nothing has changed.
  virtual absl::StatusOr<bool> Poll() = 0;

  virtual absl::StatusOr<std::byte*> Allocate(size_t bytes, absl::Time deadline) = 0;
  virtual void Free(std::byte* memory) = 0;
  // The allocation at `base`, which is not of Allocate and which nothing pending touches, is about to be freed.
  virtual absl::Status Forget(std::byte*, absl::Time) { return absl::OkStatus(); }

  // Orderly end, called again and again until true. All ranks do.
  virtual absl::StatusOr<bool> Finish() = 0;
  // Ends everything now; nothing of this rank's memory is touched once it returns.
  virtual void Abort() = 0;
};

}  // namespace rondo
