// Groups of sends and receives of the fake NCCL.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/testing/fake_nccl_comm.h"

namespace rondo::testing {

FakeNccl::OpenGroup& FakeNccl::ThisGroup() {
  thread_local OpenGroup group;
  return group;
}

NcclResult FakeNccl::GroupStart() {
  ++ThisGroup().depth;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::Send(const std::byte* data, size_t bytes, int peer, NcclComm* comm, CudaStream* stream) {
  return AddToGroup({true, const_cast<std::byte*>(data), bytes, peer}, comm, stream);
}

NcclResult FakeNccl::Recv(std::byte* data, size_t bytes, int peer, NcclComm* comm, CudaStream* stream) {
  return AddToGroup({false, data, bytes, peer}, comm, stream);
}

NcclResult FakeNccl::AddToGroup(const Message& message, NcclComm* handle, CudaStream* stream) {
  const Inside inside(*this, handle, message.send ? "ncclSend" : "ncclRecv", false);
  OpenGroup& group = ThisGroup();
  if (!inside.ok || group.depth == 0) {
    if (group.depth == 0) host_.Violation("ncclSend or ncclRecv outside a group");
    return NcclResult::kInvalidUsage;
  }
  if (message.peer < 0 || message.peer >= static_cast<int>(inside.comm.clique->members.size())) {
    return NcclResult::kInvalidArgument;
  }
  if (!inside.comm.process->Reachable(message.data, message.bytes)) {
    host_.Violation("NCCL was given memory that its device cannot reach");
    return NcclResult::kInvalidArgument;
  }
  group.comm = &inside.comm;
  group.stream = stream;
  group.messages.push_back(message);
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::GroupEnd() {
  OpenGroup group = std::exchange(ThisGroup(), {});
  if (--group.depth > 0 || group.comm == nullptr) return NcclResult::kSuccess;
  Comm& comm = *group.comm;
  const Inside inside(*this, reinterpret_cast<NcclComm*>(&comm), "ncclGroupEnd", false);
  std::unique_lock lock(mutex_);
  if (!Later()) {
    ++comm.launched;
    lock.unlock();
    Launch(comm, group);
    return NcclResult::kSuccess;
  }
  // Nothing is on the stream before the communicator's state says so.
  ++comm.launched;
  comm.waiting = [this, &comm, group = std::move(group), looks = 1 + random_() % 3]() mutable {
    if (--looks > 0) return false;
    Launch(comm, group);
    return true;
  };
  return NcclResult::kInProgress;
}

void FakeNccl::Launch(Comm& comm, const OpenGroup& group) {
  comm.process->Enqueue(group.stream, [this, &comm, messages = group.messages](const std::atomic<bool>& ending) {
    RunGroup(comm, messages, ending);
  });
}

void FakeNccl::RunGroup(Comm& comm, const std::vector<Message>& messages, const std::atomic<bool>& ending) {
  std::unique_lock lock(mutex_);
  ++comm.running;
  std::vector<std::shared_ptr<Clique::Slot>> own;
  std::vector<const Message*> receives;
  for (const Message& message : messages) {
    if (!message.send) {
      receives.push_back(&message);
      continue;
    }
    own.push_back(std::make_shared<Clique::Slot>(Clique::Slot{message.data, message.bytes, false}));
    comm.clique->sent[{comm.rank, message.peer}].push_back(own.back());
  }
  wake_.notify_all();
  // A look now and then, as a stream that is dropped wakes nobody here.
  const auto over = [&](const std::function<bool()>& ready) {
    while (!comm.gone && !ending && !ready()) wake_.wait_for(lock, std::chrono::milliseconds(20));
    return comm.gone || ending;
  };
  for (const Message* message : receives) {
    auto& queue = comm.clique->sent[{message->peer, comm.rank}];
    if (over([&] { return !queue.empty(); })) break;
    if (queue.front()->bytes != message->bytes) {
      host_.Violation(absl::StrCat("rank ", message->peer, " sends ", queue.front()->bytes, " bytes, rank ", comm.rank,
                                   " receives ", message->bytes));
      over([] { return false; });
      break;
    }
    std::memcpy(message->data, queue.front()->data, message->bytes);
    queue.front()->taken = true;
    queue.pop_front();
    wake_.notify_all();
  }
  const bool cut_off = over([&] {
    for (const auto& slot : own) {
      if (!slot->taken) return false;
    }
    return true;
  });
  if (cut_off) {
    // Its memory may go now.
    for (auto& [pair, queue] : comm.clique->sent) {
      std::erase_if(queue, [&](const auto& slot) { return std::find(own.begin(), own.end(), slot) != own.end(); });
    }
  } else {
    ++groups_;
  }
  --comm.running;
  --comm.launched;
  wake_.notify_all();
}

}  // namespace rondo::testing
