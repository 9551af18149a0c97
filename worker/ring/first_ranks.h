// The first k ranks of a transport as a transport of their own: for jobs that run on part of a group.
#pragma once

#include <algorithm>

#include "rondo/transport.h"

namespace rondo {

// `all` outlives it, has rank() < ranks, and carries nothing else meanwhile.
class FirstRanks final : public Transport {
 public:
  FirstRanks(Transport& all, int ranks) : all_(all), ranks_(ranks) {}

  int rank() const override { return all_.rank(); }
  int world_size() const override { return ranks_; }
  absl::StatusOr<Pending> SendRecv(int to, absl::Span<const std::byte> send, int from,
                                   absl::Span<std::byte> recv) override {
    return all_.SendRecv(to, send, from, recv);
  }
  bool Ready(Pending pending) override { return all_.Ready(pending); }
  absl::StatusOr<size_t> Wait(Pending pending, absl::Time deadline) override { return all_.Wait(pending, deadline); }
  absl::Status AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) override {
    return all_.AllGather(parts, deadline);
  }
  absl::Status Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) override {
    return all_.Broadcast(root, std::min(ranks, ranks_), buffer, deadline);
  }
  void Abort(absl::Status reason) override { all_.Abort(std::move(reason)); }
  uint64_t sent_bytes() const override { return all_.sent_bytes(); }

 private:
  Transport& all_;
  const int ranks_;
};

}  // namespace rondo
