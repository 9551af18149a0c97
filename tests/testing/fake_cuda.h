// CUDA streams, events and memory without a GPU: each stream is a thread that does what is put on it, late by seed; for
// tests of the transports of ranks on GPUs. What a GPU would answer with corruption or a hang is noted as a violation.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "worker/transport/device/cuda_api.h"

namespace rondo::testing {

// One machine: its cards, and what its processes share.
class FakeHost {
 public:
  // Card i has a uuid that ends in i.
  FakeHost(int devices, uint64_t seed);

  void Violation(std::string what);
  std::vector<std::string> violations();
  // A delay of 0 to about 200 microseconds.
  std::chrono::microseconds Delay();

  std::mutex mutex;  // of everything below and of all that the fakes share
  std::condition_variable wake;
  std::vector<CudaDeviceFacts> devices;

  std::map<std::byte*, int> opened;      // memory that processes have open, and how many
  std::map<std::byte*, int> registered;  // allocations that are registered with NCCL, and how often

  // The device that the calling thread has in use, and whose process it is.
  struct Thread {
    class FakeCuda* process = nullptr;
    int device = -1;
  };
  static Thread& This();

 private:
  std::mutex own_mutex_;
  std::mt19937_64 random_;
  std::vector<std::string> violations_;
};

// CUDA in one process of the host. Tests with ranks as threads give each rank its own.
class FakeCuda : public CudaApi {
 public:
  explicit FakeCuda(FakeHost& host) : host_(host) {}
  ~FakeCuda() override;

  absl::Status Use(int device) override;
  absl::StatusOr<CudaDeviceFacts> Facts(int device) override;
  absl::StatusOr<int> DriverVersion() override { return driver_version; }
  absl::StatusOr<CudaStream*> MakeStream() override;
  void Drop(CudaStream* stream) override;
  absl::StatusOr<CudaEvent*> MakeEvent(bool interprocess) override;
  void Drop(CudaEvent* event) override;
  absl::Status Record(CudaEvent* event, CudaStream* stream) override;
  absl::StatusOr<bool> Reached(CudaEvent* event) override;
  absl::Status WaitFor(CudaStream* stream, CudaEvent* event) override;
  absl::StatusOr<std::byte*> MakeMemory(size_t bytes) override { return Make(bytes, Kind::kDevice); }
  void DropMemory(std::byte* memory) override { DropAllocation(memory, Kind::kDevice); }
  absl::StatusOr<std::byte*> MakePinned(size_t bytes) override { return Make(bytes, Kind::kPinned); }
  void DropPinned(std::byte* memory) override { DropAllocation(memory, Kind::kPinned); }
  absl::StatusOr<bool> InDeviceMemory(const std::byte* memory) override;
  absl::StatusOr<CudaAllocation> AllocationOf(const std::byte* memory) override;
  absl::Status Copy(std::byte* to, const std::byte* from, size_t bytes, CudaStream* stream) override;
  absl::StatusOr<CudaIpcMemory> Share(const std::byte* memory) override;
  absl::StatusOr<std::byte*> Open(const CudaIpcMemory& memory) override;
  void Close(std::byte* opened) override;
  absl::StatusOr<CudaIpcEvent> Share(CudaEvent* event) override;
  absl::StatusOr<CudaEvent*> Open(const CudaIpcEvent& event) override;

  // For the fake NCCL and for tests' own kernels: runs on the stream. `work` ends soon once `ending` is true.
  void Enqueue(CudaStream* stream, std::function<void(const std::atomic<bool>& ending)> work);
  // Device memory that cannot be shared with other processes, as NCCL's.
  absl::StatusOr<std::byte*> MakeUnshareable(size_t bytes) { return Make(bytes, Kind::kUnshareable); }
  void DropUnshareable(std::byte* memory) { DropAllocation(memory, Kind::kUnshareable); }
  // Whether a kernel of this process may touch the range.
  bool Reachable(const std::byte* memory, size_t bytes);
  // Streams, events, allocations and openings that are not given back yet.
  size_t open_things();
  FakeHost& host() { return host_; }

  int driver_version = 13000;

 private:
  enum class Kind { kDevice, kPinned, kUnshareable };
  struct Allocation {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
    Kind kind = Kind::kDevice;
    int device = 0;
  };
  struct Event {
    uint64_t recorded = 0;
    uint64_t reached = 0;
    bool interprocess = false;
  };
  struct Stream;

  absl::StatusOr<std::byte*> Make(size_t bytes, Kind kind);
  void DropAllocation(std::byte* memory, Kind kind);
  void WaitForDevice(int device);
  const Allocation* Find(const std::byte* memory, size_t bytes);  // host_.mutex held
  std::shared_ptr<Stream> StreamOf(CudaStream* stream);
  std::shared_ptr<Event> EventOf(CudaEvent* event);

  FakeHost& host_;
  std::map<std::byte*, Allocation> allocations_;
  std::map<std::byte*, std::pair<size_t, int>> opened_;  // bytes, how often
  std::map<CudaStream*, std::shared_ptr<Stream>> streams_;
  std::map<CudaEvent*, std::shared_ptr<Event>> events_;
};

}  // namespace rondo::testing
