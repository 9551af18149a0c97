// A transport that is late and fails on purpose, by seed: for tests of everything that waits for a peer.
#pragma once

#include <cstdint>
#include <random>

#include "rondo/transport.h"

namespace rondo::testing {

struct FaultPlan {
  uint64_t seed = 0;
  absl::Duration longest_delay;  // before each call, uniform in [0, longest_delay]
  int64_t fail_at_call = -1;     // the call with this number fails, and so do all after it
  absl::Status failure = absl::UnavailableError("injected");
  // Abort the inner transport as well, as a rank that notices its own failure does; else it just goes silent.
  bool abort_inner = true;
};

// Wraps `inner`, which must outlive it. Threading as Transport.
class FaultyTransport : public Transport {
 public:
  FaultyTransport(Transport& inner, FaultPlan plan) : inner_(inner), plan_(std::move(plan)), random_(plan_.seed) {}

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
  int64_t calls() const { return calls_; }

 private:
  absl::Status BeforeCall();

  Transport& inner_;
  const FaultPlan plan_;
  std::mt19937_64 random_;
  int64_t calls_ = 0;
};

}  // namespace rondo::testing
