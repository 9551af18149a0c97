// CUDA between real processes without a GPU: device memory is files that processes of this machine can map, streams are
// threads; for tests of CUDA IPC. What a GPU would answer with corruption or an error ends the process, saying so.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "worker/transport/device/cuda_api.h"

namespace rondo::testing {

class ProcessCuda : public CudaApi {
 public:
  ProcessCuda() = default;
  ~ProcessCuda() override;

  absl::Status Use(int device) override;
  absl::StatusOr<CudaDeviceFacts> Facts(int device) override;
  absl::StatusOr<int> DriverVersion() override { return 13000; }
  absl::StatusOr<CudaStream*> MakeStream() override;
  void Drop(CudaStream* stream) override;
  absl::StatusOr<CudaEvent*> MakeEvent(bool interprocess) override;
  void Drop(CudaEvent* event) override;
  absl::Status Record(CudaEvent* event, CudaStream* stream) override;
  absl::StatusOr<bool> Reached(CudaEvent* event) override;
  absl::Status WaitFor(CudaStream* stream, CudaEvent* event) override;
  absl::StatusOr<std::byte*> MakeMemory(size_t bytes) override;  // 0xcd until written
  void DropMemory(std::byte* memory) override;
  absl::StatusOr<std::byte*> MakePinned(size_t bytes) override;
  void DropPinned(std::byte* memory) override;
  absl::StatusOr<bool> InDeviceMemory(const std::byte* memory) override;
  absl::StatusOr<CudaAllocation> AllocationOf(const std::byte* memory) override;
  absl::Status Copy(std::byte* to, const std::byte* from, size_t bytes, CudaStream* stream) override;
  absl::StatusOr<CudaIpcMemory> Share(const std::byte* memory) override;
  absl::StatusOr<std::byte*> Open(const CudaIpcMemory& memory) override;
  void Close(std::byte* opened) override;
  absl::StatusOr<CudaIpcEvent> Share(CudaEvent* event) override;
  absl::StatusOr<CudaEvent*> Open(const CudaIpcEvent& event) override;

  int64_t opened_in_all() const { return opened_in_all_; }  // pieces of other processes' memory

 private:
  // A file of this process, or of another that has been opened. Its first page holds counters, the rest is memory.
  struct File {
    int descriptor = -1;
    size_t bytes = 0;  // with that page
    struct Counters* counters = nullptr;
    std::byte* data() const;
  };
  struct Stream;
  struct Event;
  struct Handle;

  File MakeFile(size_t bytes);
  File OpenFile(const Handle& handle);
  static void DropFile(const File& file);
  const File* Find(const std::map<std::byte*, File>& files, const std::byte* memory, size_t bytes) const;
  void RequireReachable(const std::byte* memory, size_t bytes);
  void Enqueue(CudaStream* stream, std::function<void()> work);

  std::mutex mutex_;
  std::map<std::byte*, File> memory_;
  std::map<std::byte*, File> opened_;
  std::map<std::byte*, std::unique_ptr<std::byte[]>> pinned_;
  std::map<std::byte*, size_t> pinned_bytes_;
  std::map<CudaStream*, std::shared_ptr<Stream>> streams_;
  std::map<CudaEvent*, std::shared_ptr<Event>> events_;
  std::atomic<int64_t> opened_in_all_{0};
};

}  // namespace rondo::testing
