// Ranks as threads, each a process of the fake machine with its own GPU, joined by the transport under test; for the
// tests of NcclTransport and its siblings.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/testing/fake_cuda.h"
#include "tests/testing/fake_nccl.h"
#include "worker/transport/device/device_transport.h"
#include "worker/transport/loopback_transport.h"

namespace rondo::testing {

// The loopback transport with MPI's Abort, which ends this rank's own calls and reaches nobody else: what the others
// hear, they hear from the transport under test.
class AbortsAlone : public Transport {
 public:
  explicit AbortsAlone(Transport& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  absl::StatusOr<Pending> SendRecv(int to, absl::Span<const std::byte> send, int from,
                                   absl::Span<std::byte> recv) override {
    if (aborted_) return absl::UnavailableError("aborted");
    return inner_.SendRecv(to, send, from, recv);
  }
  bool Ready(Pending pending) override { return aborted_ || inner_.Ready(pending); }
  absl::StatusOr<size_t> Wait(Pending pending, absl::Time deadline) override {
    if (aborted_) return absl::UnavailableError("aborted");
    return inner_.Wait(pending, deadline);
  }
  absl::Status AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) override {
    return inner_.AllGather(parts, deadline);
  }
  absl::Status Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) override {
    return inner_.Broadcast(root, ranks, buffer, deadline);
  }
  void Abort(absl::Status) override { aborted_ = true; }
  uint64_t sent_bytes() const override { return inner_.sent_bytes(); }

 private:
  Transport& inner_;
  std::atomic<bool> aborted_{false};
};

class GpuGroup {
 public:
  using Made = absl::StatusOr<std::unique_ptr<DeviceTransport>>;
  using Make = std::function<Made(GpuGroup& group, int rank)>;

  // Rank r has GPU r modulo the number of devices. `one_process`: the ranks share addresses.
  GpuGroup(int world, int devices, uint64_t seed, bool one_process = false);
  ~GpuGroup();

  // Makes every rank's transport in the rank's thread, then runs `body` on all of them; they go when all bodies are
  // through. A rank that could not be made has a null transport and its status in made[rank].
  void Run(const Make& make, const std::function<void(DeviceTransport* transport, int rank)>& body);
  // The same for bodies that need no more than a transport that was made.
  void Run(const Make& make, const std::function<void(DeviceTransport& transport)>& body);

  int device(int rank) const { return rank % static_cast<int>(host.devices.size()); }

  const int world;
  FakeHost host;
  FakeNccl nccl;
  LoopbackHub hub;
  std::vector<std::shared_ptr<FakeCuda>> cuda;
  std::vector<std::unique_ptr<Transport>> loopback;
  std::vector<std::unique_ptr<Transport>> control;  // over it
  std::vector<absl::Status> made;
};

// How the tests make ranks, each at epoch 7.
GpuGroup::Made MakeNccl(GpuGroup& group, int rank);
GpuGroup::Made MakeIpc(GpuGroup& group, int rank);
GpuGroup::Made MakeStaged(GpuGroup& group, int rank);

// A transport over `inner` that moves what callers send and receive through device memory, at either end as asked: the
// conformance checks know host memory alone.
class ThroughDeviceMemory : public Transport {
 public:
  ThroughDeviceMemory(DeviceTransport& inner, FakeCuda& cuda, bool send, bool recv)
      : inner_(inner), cuda_(cuda), send_(send), recv_(recv) {}
  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  absl::StatusOr<Pending> SendRecv(int to, absl::Span<const std::byte> send, int from,
                                   absl::Span<std::byte> recv) override;
  bool Ready(Pending pending) override { return inner_.Ready(pending); }
  absl::StatusOr<size_t> Wait(Pending pending, absl::Time deadline) override;
  absl::Status AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) override;
  absl::Status Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) override;
  void Abort(absl::Status reason) override { inner_.Abort(std::move(reason)); }
  uint64_t sent_bytes() const override { return inner_.sent_bytes(); }

 private:
  std::byte* Memory(size_t bytes);

  DeviceTransport& inner_;
  FakeCuda& cuda_;
  const bool send_;
  const bool recv_;
  struct Arrival {
    std::byte* memory = nullptr;
    absl::Span<std::byte> to;
  };
  std::map<uint64_t, Arrival> arrivals_;
};

}  // namespace rondo::testing
