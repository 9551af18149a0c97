// The CUDA runtime as the transports see it: a table of the few calls they make, without a CUDA type in sight; filled
// by the GPU module (worker/device) or by the fake of the tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rondo {

struct CudaStream;  // a cudaStream_t points to one
struct CudaEvent;   // a cudaEvent_t points to one

struct CudaDeviceFacts {
  std::string name;                   // "NVIDIA H200"
  std::array<uint8_t, 16> uuid = {};  // the card's, whatever its index
  int capability = 0;                 // 90 for 9.0
  uint64_t memory_bytes = 0;
};

// A piece of device memory and an event, as another process of this host can open them.
struct CudaIpcMemory {
  std::array<uint8_t, 64> handle = {};  // of the whole allocation
  uint64_t offset = 0;                  // of the piece in it
};
struct CudaAllocation {
  std::byte* base = nullptr;
  size_t bytes = 0;
};
using CudaIpcEvent = std::array<uint8_t, 64>;

// Any thread. Calls act on the device that the calling thread chose last with Use. INTERNAL with CUDA's text where a
// call fails.
class CudaApi {
 public:
  virtual ~CudaApi() = default;
  virtual absl::Status Use(int device) = 0;
  virtual absl::StatusOr<CudaDeviceFacts> Facts(int device) = 0;
  virtual absl::StatusOr<int> DriverVersion() = 0;  // 13000: the newest CUDA that the driver can run

  virtual absl::StatusOr<CudaStream*> MakeStream() = 0;  // of the highest priority, never waiting for the default one
  virtual void Drop(CudaStream* stream) = 0;             // what is on it is still done
  virtual absl::StatusOr<CudaEvent*> MakeEvent(bool interprocess) = 0;
  virtual void Drop(CudaEvent* event) = 0;
  virtual absl::Status Record(CudaEvent* event, CudaStream* stream) = 0;
  virtual absl::StatusOr<bool> Reached(CudaEvent* event) = 0;  // never blocks
  virtual absl::Status WaitFor(CudaStream* stream, CudaEvent* event) = 0;

  virtual absl::StatusOr<std::byte*> MakeMemory(size_t bytes) = 0;
  virtual void DropMemory(std::byte* memory) = 0;
  virtual absl::StatusOr<std::byte*> MakePinned(size_t bytes) = 0;
  virtual void DropPinned(std::byte* memory) = 0;
  virtual absl::StatusOr<bool> InDeviceMemory(const std::byte* memory) = 0;
  virtual absl::StatusOr<CudaAllocation> AllocationOf(const std::byte* memory) = 0;  // device memory, or inside it
  // Between device and pinned memory in any direction; only put on the stream.
  virtual absl::Status Copy(std::byte* to, const std::byte* from, size_t bytes, CudaStream* stream) = 0;

  virtual absl::StatusOr<CudaIpcMemory> Share(const std::byte* memory) = 0;  // of MakeMemory, or inside it
  virtual absl::StatusOr<std::byte*> Open(const CudaIpcMemory& memory) = 0;  // the allocation's beginning
  virtual void Close(std::byte* opened) = 0;
  virtual absl::StatusOr<CudaIpcEvent> Share(CudaEvent* event) = 0;  // made for it
  virtual absl::StatusOr<CudaEvent*> Open(const CudaIpcEvent& event) = 0;
};

}  // namespace rondo
