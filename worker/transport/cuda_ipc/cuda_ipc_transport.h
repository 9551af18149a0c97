// The transport between ranks of one machine over CUDA IPC; used by worker/main, which passes it on as a Transport.
#pragma once

#include <memory>

#include "worker/transport/device/device_transport.h"

namespace rondo {

// Any number of ranks a GPU. `control` joins the ranks of one launch and carries host memory. All ranks call it; all
// references outlive it. `process`: who may use this rank's addresses as they are; 0: this process.
absl::StatusOr<std::unique_ptr<DeviceTransport>> MakeCudaIpcTransport(Transport& control, CudaApi& cuda,
                                                                      const DeviceTransportOptions& options,
                                                                      absl::Time deadline, int64_t process = 0);

}  // namespace rondo
