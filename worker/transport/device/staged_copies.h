// Copies between host and device memory through pinned buffers, on a stream of their own; the DeviceTransport's thread
// drives them.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/transport/device/cuda_api.h"

namespace rondo {

class StagedCopies {
 public:
  using Then = std::function<absl::Status()>;

  // `cuda` outlives this.
  explicit StagedCopies(CudaApi& cuda) : cuda_(cuda) {}
  ~StagedCopies();

  absl::Status Begin();  // in the thread that drives it, with its device in use

  // Buffers are kept and given out again; the smallest that fits is taken.
  absl::StatusOr<std::byte*> TakePinned(size_t bytes);
  void GivePinned(std::byte* buffer);
  // The same for device memory: where a message for host memory arrives first.
  absl::StatusOr<std::byte*> TakeDevice(size_t bytes);
  void GiveDevice(std::byte* buffer);

  // The next Copy begins once `event` is reached; null: at once.
  absl::Status After(CudaEvent* event);
  // Copies, then calls `then` from Poll. Host memory is a buffer of TakePinned.
  absl::Status Copy(std::byte* to, const std::byte* from, size_t bytes, Then then);
  absl::StatusOr<bool> Poll();
  // All buffers go, and no `then` is called any more.
  void Abort();

 private:
  struct Buffer {
    size_t size = 0;
    bool taken = false;
  };
  struct Flight {
    CudaEvent* event = nullptr;
    Then then;
  };
  using Buffers = std::map<std::byte*, Buffer>;
  static std::byte* Reuse(Buffers& buffers, size_t bytes);

  CudaApi& cuda_;
  CudaStream* stream_ = nullptr;
  Buffers pinned_;
  Buffers device_;
  std::vector<CudaEvent*> free_events_;
  std::list<Flight> flights_;  // in the order of the stream
};

}  // namespace rondo
