#include "tests/testing/staged_transport.h"

#include <utility>

#include "base/check.h"

namespace rondo {

StagedTransport::Stage StagedTransport::TakeIdle() {
  if (idle_.empty()) return Stage();
  Stage stage = std::move(idle_.back());
  idle_.pop_back();
  return stage;
}

absl::StatusOr<Transport::Pending> StagedTransport::SendRecv(int to, absl::Span<const std::byte> send, int from,
                                                             absl::Span<std::byte> recv) {
  const bool sends = OnDevice(send.data()), receives = OnDevice(recv.data());
  if (!sends && !receives) return host_.SendRecv(to, send, from, recv);
  Stage stage = TakeIdle();
  stage.target = {};
  if (sends) {
    std::byte* copy = stage.send.Grow(send.size());
    memory_.Copy(copy, send.data(), send.size());
    send = {copy, send.size()};
  }
  if (receives) {
    stage.target = recv;
    recv = {stage.recv.Grow(recv.size()), recv.size()};
  }
  absl::StatusOr<Pending> pending = host_.SendRecv(to, send, from, recv);
  if (pending.ok()) stages_.emplace(pending->id, std::move(stage));
  return pending;
}

absl::StatusOr<size_t> StagedTransport::Wait(Pending pending, absl::Time deadline) {
  absl::StatusOr<size_t> bytes = host_.Wait(pending, deadline);
  const auto at = stages_.find(pending.id);
  // After an error the exchange may still be under way, and its buffers with it.
  if (!bytes.ok() || at == stages_.end()) return bytes;
  Stage stage = std::move(at->second);
  stages_.erase(at);
  if (!stage.target.empty()) memory_.Copy(stage.target.data(), stage.recv.data(), *bytes);
  idle_.push_back(std::move(stage));
  return bytes;
}

absl::Status StagedTransport::AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) {
  for (const absl::Span<std::byte> part : parts) RONDO_CHECK(!OnDevice(part.data()));
  return host_.AllGather(parts, deadline);
}

absl::Status StagedTransport::Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) {
  RONDO_CHECK(!OnDevice(buffer.data()));
  return host_.Broadcast(root, ranks, buffer, deadline);
}

}  // namespace rondo
