#include "tests/worker/transport/gpu/gpu_group.h"

#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <thread>

#include "absl/time/clock.h"
#include "worker/transport/cuda_ipc/cuda_ipc_transport.h"
#include "worker/transport/nccl/nccl_transport.h"

namespace rondo::testing {

GpuGroup::GpuGroup(int ranks, int devices, uint64_t seed, bool one_process)
    : world(ranks), host(devices, seed), nccl(host, seed), hub(ranks), made(ranks) {
  for (int rank = 0; rank < world; ++rank) {
    cuda.push_back(one_process && rank > 0 ? cuda[0] : std::make_shared<FakeCuda>(host));
    loopback.push_back(hub.Connect(rank));
    control.push_back(std::make_unique<AbortsAlone>(*loopback.back()));
  }
}

GpuGroup::~GpuGroup() {
  for (const std::string& violation : host.violations()) ADD_FAILURE() << violation;
}

void GpuGroup::Run(const Make& make, const std::function<void(DeviceTransport* transport, int rank)>& body) {
  std::vector<std::unique_ptr<DeviceTransport>> transports(world);
  std::latch all_made(world);
  std::latch through(world);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      ASSERT_TRUE(cuda[rank]->Use(device(rank)).ok());
      Made transport = make(*this, rank);
      made[rank] = transport.status();
      if (transport.ok()) transports[rank] = *std::move(transport);
      all_made.arrive_and_wait();
      body(transports[rank].get(), rank);
      through.arrive_and_wait();
      transports[rank].reset();
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

void GpuGroup::Run(const Make& make, const std::function<void(DeviceTransport& transport)>& body) {
  Run(make, [&](DeviceTransport* transport, int rank) {
    ASSERT_NE(transport, nullptr) << made[rank];
    body(*transport);
  });
}

namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

}  // namespace

GpuGroup::Made MakeNccl(GpuGroup& group, int rank) {
  return MakeNcclTransport(*group.control[rank], *group.cuda[rank], group.nccl,
                           {.device = group.device(rank), .epoch = 7}, {}, Soon());
}

GpuGroup::Made MakeIpc(GpuGroup& group, int rank) {
  const bool shares = group.cuda[rank] == group.cuda[(rank + 1) % group.world];
  return MakeCudaIpcTransport(*group.control[rank], *group.cuda[rank], {.device = group.device(rank), .epoch = 7},
                              Soon(), shares ? 0 : 1000 + rank);
}

GpuGroup::Made MakeStaged(GpuGroup& group, int rank) {
  return DeviceTransport::Create(*group.control[rank], *group.cuda[rank], nullptr,
                                 {.device = group.device(rank), .epoch = 7});
}

// Never given back: with CUDA IPC, memory that was sent from stays until the transport has ended.
std::byte* ThroughDeviceMemory::Memory(size_t bytes) { return cuda_.MakeMemory(bytes).value(); }

absl::StatusOr<Transport::Pending> ThroughDeviceMemory::SendRecv(int to, absl::Span<const std::byte> send, int from,
                                                                 absl::Span<std::byte> recv) {
  if (send_ && !send.empty()) {
    std::byte* const memory = Memory(send.size());
    std::memcpy(memory, send.data(), send.size());
    send = {memory, send.size()};
  }
  Arrival arrival;
  if (recv_ && !recv.empty()) {
    arrival = {Memory(recv.size()), recv};
    std::memcpy(arrival.memory, recv.data(), recv.size());
    recv = {arrival.memory, recv.size()};
  }
  const absl::StatusOr<Pending> pending = inner_.SendRecv(to, send, from, recv);
  if (pending.ok()) arrivals_[pending->id] = arrival;
  return pending;
}

absl::StatusOr<size_t> ThroughDeviceMemory::Wait(Pending pending, absl::Time deadline) {
  const absl::StatusOr<size_t> got = inner_.Wait(pending, deadline);
  const Arrival& arrival = arrivals_[pending.id];
  if (got.ok() && arrival.memory != nullptr) std::memcpy(arrival.to.data(), arrival.memory, arrival.to.size());
  return got;
}

absl::Status ThroughDeviceMemory::AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) {
  std::vector<absl::Span<std::byte>> in_device;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const bool own = static_cast<int>(rank) == inner_.rank();
    if (!(own ? send_ : recv_) || parts[rank].empty()) {
      in_device.push_back(parts[rank]);
      continue;
    }
    in_device.push_back({Memory(parts[rank].size()), parts[rank].size()});
    std::memcpy(in_device.back().data(), parts[rank].data(), parts[rank].size());
  }
  const absl::Status status = inner_.AllGather(in_device, deadline);
  for (size_t rank = 0; status.ok() && rank < parts.size(); ++rank) {
    if (parts[rank].data() == in_device[rank].data()) continue;
    std::memcpy(parts[rank].data(), in_device[rank].data(), parts[rank].size());
  }
  return status;
}

absl::Status ThroughDeviceMemory::Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) {
  if (!(root == inner_.rank() ? send_ : recv_) || buffer.empty()) {
    return inner_.Broadcast(root, ranks, buffer, deadline);
  }
  std::byte* const memory = Memory(buffer.size());
  std::memcpy(memory, buffer.data(), buffer.size());
  const absl::Status status = inner_.Broadcast(root, ranks, {memory, buffer.size()}, deadline);
  if (status.ok()) std::memcpy(buffer.data(), memory, buffer.size());
  return status;
}

}  // namespace rondo::testing
