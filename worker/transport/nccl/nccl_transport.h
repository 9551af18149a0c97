// The transport between GPUs over NCCL; used by worker/main, which passes it on as a Transport.
#pragma once

#include <memory>

#include "worker/transport/device/device_transport.h"
#include "worker/transport/nccl/nccl_api.h"
#include "worker/transport/nccl/nccl_path.h"

namespace rondo {

// One rank a GPU. `control` joins the ranks of one launch (MPI, or loopback for ranks as threads); it carries host
// memory and announcements, NCCL carries device memory. In order: facts of all ranks and the refusals that follow from
// them, the unique id, the communicator, and that all ranks have one. All ranks call it; all references outlive it.
absl::StatusOr<std::unique_ptr<DeviceTransport>> MakeNcclTransport(Transport& control, CudaApi& cuda, NcclApi& nccl,
                                                                   const DeviceTransportOptions& options,
                                                                   const NcclOptions& nccl_options,
                                                                   absl::Time deadline);

}  // namespace rondo
