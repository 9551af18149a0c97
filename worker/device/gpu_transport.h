// The transport that a worker on a GPU was told to use, made over the one that joins its launch; used by worker/main.
#pragma once

#include <memory>

#include "worker/device/choose_device.h"
#include "worker/transport/device/device_transport.h"
#include "worker/transport/nccl/nccl_api.h"

namespace rondo {

// What must live as long as the transport, and the transport.
struct GpuTransport {
  std::unique_ptr<NcclApi> nccl;
  std::unique_ptr<DeviceTransport> transport;
};

// What a rank computes on and how it reaches others: `auto` looks at its own machine alone, so machines may differ.
struct RankChoice {
  bool cuda = false;
  TransportKind transport = TransportKind::kMpi;
};
// All ranks of a launch call it first, on CPUs too. FAILED_PRECONDITION naming two that chose differently.
absl::Status AgreeOnPlace(RankChoice own, Transport& control, absl::Time deadline);

// All ranks call it, which have agreed. `kind` is kNccl, kCudaIpc or kMpi (device memory through pinned host memory and
// `control`). `cuda` and `control` outlive it; the epoch is drawn from the launch, so a rank that is left over from an
// earlier one is refused.
absl::StatusOr<GpuTransport> MakeGpuTransport(TransportKind kind, int device, Transport& control, CudaApi& cuda,
                                              const std::string& launch_id, absl::Time deadline);

// Of a launch id in hexadecimal digits: its first 64 bits.
uint64_t EpochOf(const std::string& launch_id);

}  // namespace rondo
