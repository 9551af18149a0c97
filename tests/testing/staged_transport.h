// Carries device memory over a transport that knows host memory alone: MPI without CUDA, or ranks as threads. What is
// sent is copied to host memory first, what arrives is copied on in Wait; used by ranks whose kernels keep their
// tensors on a device.
#pragma once

#include <unordered_map>
#include <vector>

#include "rondo/tensor_memory.h"
#include "rondo/transport.h"

namespace rondo {

class StagedTransport : public Transport {
 public:
  // Both outlive this.
  StagedTransport(Transport& host, TensorMemory& memory) : host_(host), memory_(memory) {}

  int rank() const override { return host_.rank(); }
  int world_size() const override { return host_.world_size(); }
  absl::StatusOr<Pending> SendRecv(int to, absl::Span<const std::byte> send, int from,
                                   absl::Span<std::byte> recv) override;
  bool Ready(Pending pending) override { return host_.Ready(pending); }
  absl::StatusOr<size_t> Wait(Pending pending, absl::Time deadline) override;
  // Gathers and broadcasts are of headers and a few nodes: host memory already.
  absl::Status AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) override;
  absl::Status Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) override;
  void Abort(absl::Status reason) override { host_.Abort(std::move(reason)); }
  uint64_t sent_bytes() const override { return host_.sent_bytes(); }

 private:
  // Host copies of one exchange, until it is waited for; reused afterwards.
  struct Stage {
    TensorBuffer send, recv;
    absl::Span<std::byte> target;  // on the device; empty: nothing to copy on
  };
  bool OnDevice(const std::byte* p) const { return p != nullptr && !memory_.is_host() && memory_.Owns(p); }
  Stage TakeIdle();

  Transport& host_;
  TensorMemory& memory_;
  std::unordered_map<uint64_t, Stage> stages_;  // by Pending::id
  std::vector<Stage> idle_;
};

}  // namespace rondo
