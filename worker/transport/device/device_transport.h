// The transport of ranks on GPUs: host memory goes through a host transport, device memory through a DevicePath (NCCL,
// CUDA IPC) or, without one, through pinned buffers and the host transport; made by NcclTransport and its siblings.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "rondo/device_messages.h"
#include "worker/transport/device/cuda_api.h"
#include "worker/transport/device/device_path.h"
#include "worker/transport/pair_transport.h"

namespace rondo {

struct DeviceTransportOptions {
  int device = 0;      // this rank's, as CUDA counts
  uint64_t epoch = 0;  // of the group: messages of another one are refused
  // Longest sleep between two looks at transfers that do not move, as MpiOptions::poll_sleep.
  absl::Duration poll_sleep = absl::Microseconds(100);
  // A failed rank tells all others and waits this long for them to stop as well before it ends its transfers.
  absl::Duration agreement = absl::Seconds(1);
};

// One thread of each rank makes every call to the host transport, to the path and to CUDA's copies. Every message is
// announced on the host transport (ControlLinks) when it is sent, so a receiver knows its size and kind before any byte
// of device memory moves, and a wrong size is an error with both numbers in the place of a hang inside NCCL.
//
// Ending in disorder is agreed: a rank that fails, or whose Abort is called, tells every other rank and goes on to end
// its own transfers when all have answered, or after `agreement` (dead ranks do not answer). All ranks then fail with
// the first rank's reason. Abort reaches every rank.
class DeviceTransport : public PairTransport, public DeviceMessages {
 public:
  // `control` and `cuda` outlive this; nobody else calls `control` meanwhile, and when this fails so does it. `path`
  // may be null. All ranks call it.
  static absl::StatusOr<std::unique_ptr<DeviceTransport>> Create(Transport& control, CudaApi& cuda,
                                                                 std::unique_ptr<DevicePath> path,
                                                                 const DeviceTransportOptions& options);
  // Without Close, peers see this rank's host transport end.
  ~DeviceTransport() override;

  // Orderly end; all ranks call it, with nothing pending. `control` is the caller's again. The first error if failed.
  absl::Status Close(absl::Time deadline);

  // Before device memory that messages may have left from or arrived in is freed, while the transport lives: an error
  // means that it must not be. `base`: as it was allocated. Nothing pending touches it.
  absl::Status Forget(std::byte* base, absl::Time deadline);

  int rank() const override;
  int world_size() const override;
  uint64_t sent_bytes() const override;
  bool Ready(Pending pending) override;
  absl::StatusOr<size_t> Wait(Pending pending, absl::Time deadline) override;
  void Abort(absl::Status reason) override;

  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes, absl::Time deadline) override;
  absl::Status StartAfter(DeviceStream stream) override;
  absl::StatusOr<size_t> WaitOn(DeviceStream stream, Pending pending, absl::Time deadline) override;

 protected:
  absl::StatusOr<Pending> Post(absl::Span<const Transfer> transfers) override;

 private:
  class Engine;    // what callers and the thread share
  class Matching;  // the thread's own: which message goes where
  explicit DeviceTransport(std::shared_ptr<Engine> engine);

  const std::shared_ptr<Engine> engine_;
};

}  // namespace rondo
