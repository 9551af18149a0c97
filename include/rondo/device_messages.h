// What a ring on GPUs asks of a transport beyond Transport: messages in device memory, and waits that the GPU makes in
// the place of the host. Implemented in worker/transport/device; used by the ring over GPU kernels.
//
// A span given to such a transport lies wholly in host memory of any kind (pageable or pinned) or wholly in memory of
// this rank's device, and the two ends of a message need not agree: a header from the stack and a block in device
// memory travel through the same calls. Between host and device memory the transport copies through pinned buffers of
// its own.
//
// Device memory is matched in order: a set of posts works if it would work with each SendRecv waited for before the
// next is posted. (A rank's transfers go one after the other through one communication stream.) Ring steps, gathers
// and trees do. Two ranks that each post a receive from the other and then, in a second call, the send, do not.
#pragma once

#include <cstddef>
#include <memory>

#include "rondo/transport.h"

namespace rondo {

// A cudaStream_t of this rank's device, whoever made it. Null: the device's default stream.
struct DeviceStream {
  void* handle = nullptr;
};

// Device memory that goes back when this is destroyed, which it is before the transport.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual absl::Span<std::byte> bytes() const = 0;
};

class DeviceMessages {
 public:
  virtual ~DeviceMessages() = default;

  // Memory that messages leave from and arrive in without a copy, where the transport knows such: the two buffers of a
  // ring. At least 1 byte.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes, absl::Time deadline) = 0;

  // The transfers of the next post begin only after everything that is on `stream` now: kernels that write what is
  // sent, or still read what is received over.
  virtual absl::Status StartAfter(DeviceStream stream) = 0;

  // As Wait, but the host waits only until the sizes are known and the transfers are on their way; what is put on
  // `stream` later waits for the data there. The deadline holds for the data as well: data that is late then fails the
  // transport.
  virtual absl::StatusOr<size_t> WaitOn(DeviceStream stream, Transport::Pending pending, absl::Time deadline) = 0;
};

}  // namespace rondo
