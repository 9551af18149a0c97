// A transport that notes when its caller waits and what it sends, and hands every call on: the timeline of a rank whose
// ring keeps none of its own; used by scale_rank's model cells.
#pragma once

#include <vector>

#include "absl/time/clock.h"
#include "bench/scale/rank_record.h"
#include "rondo/transport.h"

namespace rondo {

// Waits with no send between them are one step: a message and its header.
class TracedTransport : public Transport {
 public:
  explicit TracedTransport(Transport& transport) : transport_(transport) {}

  // Steps are counted from here.
  void Start() {
    start_ = at_ = posted_at_ = absl::Now();
    steps_.clear();
    sent_ = 0;
  }
  // Closes the last step, in which nobody was waited for.
  std::vector<StepRecord> Stop() {
    const absl::Time now = absl::Now();
    steps_.push_back({at_ - start_, posted_at_ - start_, now - at_, absl::ZeroDuration(), sent_, false});
    return std::move(steps_);
  }

  int rank() const override { return transport_.rank(); }
  int world_size() const override { return transport_.world_size(); }
  absl::StatusOr<Pending> SendRecv(int to, absl::Span<const std::byte> send, int from,
                                   absl::Span<std::byte> recv) override {
    Posting();
    if (to != rank() && to != kNobody) sent_ += send.size();
    return transport_.SendRecv(to, send, from, recv);
  }
  bool Ready(Pending pending) override { return transport_.Ready(pending); }
  absl::StatusOr<size_t> Wait(Pending pending, absl::Time deadline) override {
    const absl::Time begin = absl::Now();
    absl::StatusOr<size_t> result = transport_.Wait(pending, deadline);
    Waited(begin);
    return result;
  }
  absl::Status AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) override {
    Posting();
    everybody_ = true;
    sent_ += parts[rank()].size() * (parts.size() - 1);
    const absl::Time begin = absl::Now();
    absl::Status status = transport_.AllGather(parts, deadline);
    Waited(begin);
    return status;
  }
  absl::Status Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) override {
    Posting();
    everybody_ = true;
    const uint64_t before = transport_.sent_bytes();
    const absl::Time begin = absl::Now();
    absl::Status status = transport_.Broadcast(root, ranks, buffer, deadline);
    sent_ += transport_.sent_bytes() - before;
    Waited(begin);
    return status;
  }
  void Abort(absl::Status reason) override { transport_.Abort(std::move(reason)); }
  uint64_t sent_bytes() const override { return transport_.sent_bytes(); }

 private:
  void Posting() {
    if (!posted_) posted_at_ = absl::Now();
    posted_ = true;
  }
  void Waited(absl::Time begin) {
    const absl::Time end = absl::Now();
    if (!posted_ && !steps_.empty()) {
      steps_.back().exposed_wait += end - at_;
    } else {
      steps_.push_back({at_ - start_, posted_at_ - start_, begin - at_, end - begin, sent_, everybody_});
      sent_ = 0;
    }
    posted_ = everybody_ = false;
    at_ = end;
  }

  Transport& transport_;
  absl::Time start_, at_, posted_at_;
  bool posted_ = false;
  bool everybody_ = false;  // a collective
  uint64_t sent_ = 0;
  std::vector<StepRecord> steps_;
};

}  // namespace rondo
