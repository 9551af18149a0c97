// A transport that runs a test's function ahead of every call, for points in a job that are counted instead of timed.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "rondo/transport.h"

namespace rondo::testing {

// `before` gets the number of the call, from 0, in the rank's thread. Threading as Transport.
class ScriptedTransport : public Transport {
 public:
  ScriptedTransport(Transport& inner, std::function<void(int64_t call)> before)
      : inner_(inner), before_(std::move(before)) {}

  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  absl::StatusOr<Pending> SendRecv(int to, absl::Span<const std::byte> send, int from,
                                   absl::Span<std::byte> recv) override {
    before_(calls_++);
    return inner_.SendRecv(to, send, from, recv);
  }
  bool Ready(Pending pending) override { return inner_.Ready(pending); }
  absl::StatusOr<size_t> Wait(Pending pending, absl::Time deadline) override {
    before_(calls_++);
    return inner_.Wait(pending, deadline);
  }
  absl::Status AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) override {
    before_(calls_++);
    return inner_.AllGather(parts, deadline);
  }
  absl::Status Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) override {
    before_(calls_++);
    return inner_.Broadcast(root, ranks, buffer, deadline);
  }
  void Abort(absl::Status reason) override { inner_.Abort(std::move(reason)); }
  uint64_t sent_bytes() const override { return inner_.sent_bytes(); }

  int64_t calls() const { return calls_; }

 private:
  Transport& inner_;
  const std::function<void(int64_t)> before_;
  std::atomic<int64_t> calls_{0};
};

}  // namespace rondo::testing
