#include "worker/ring/circulation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rondo {

// The units of one origin after `hops` hops, and how those that go on lie among them.
Circulation::Step Circulation::MakeStep(const std::vector<Unit>& units, int hops) {
  Step step;
  bool open = false;
  for (size_t i = 0; i < units.size(); ++i) {
    if (units[i].reach < hops) continue;
    const bool goes_on = units[i].reach > hops;
    const bool apart = hops == 0 && units[i].apart;
    if (goes_on && (!open || apart)) step.out.push_back({step.units.size(), 0});
    if (goes_on) step.out.back().bytes += units[i].bytes;
    open = goes_on;
    step.units.push_back(static_cast<int32_t>(i));
    step.offsets.push_back(step.bytes);
    step.bytes += units[i].bytes;
  }
  return step;
}

void Circulation::Plan(RingHeader::Kind kind, const std::vector<std::vector<Unit>>& units, int64_t position) {
  const int ranks = context_.ring_size;
  RONDO_CHECK(static_cast<int>(units.size()) == ranks);
  kind_ = kind;
  position_ = position;
  skipped_hops_ = 0;
  buffer_bytes_ = 0;
  steps_.clear();
  size_t most_parts = 0;
  for (int s = 0; s < ranks; ++s) {
    const int origin = (context_.rank() + ranks - s) % ranks;
    Step step = MakeStep(units[origin], s);
    const bool carries_stop = origin == 0 && context_.kv.layers() > 1;
    step.origin = origin;
    step.arrives = s > 0 && (!step.units.empty() || carries_stop);
    step.leaves = s + 1 < ranks && (!step.out.empty() || carries_stop);
    if (s > 0) {
      for (const Stretch& stretch : MakeStep(units[origin], s - 1).out) step.in.push_back(stretch.bytes);
      buffer_bytes_ = std::max(buffer_bytes_, step.bytes);
      if (!step.arrives) ++skipped_hops_;
    }
    most_parts = std::max({most_parts, step.in.size(), step.out.size()});
    steps_.push_back(std::move(step));
  }
  payloads_.reserve(most_parts);
  Reserve(buffer_bytes_);
}

size_t Circulation::BufferBytes(const std::vector<std::vector<Unit>>& units, int rank) {
  const int ranks = static_cast<int>(units.size());
  size_t most = 0;
  for (int s = 1; s < ranks; ++s) most = std::max(most, MakeStep(units[(rank + ranks - s) % ranks], s).bytes);
  return most;
}

void Circulation::Begin(int32_t layer, absl::Span<const std::byte* const> own) {
  step_ = 0;
  RONDO_CHECK(own.size() == steps_[0].units.size());
  own_ = own;
  header_ = context_.Header(kind_, layer, position_);
  stop_ = context_.rank() == 0 && context_.Cancelling();
  if (stop_) header_.flags |= RingHeader::kStop;
}

absl::Status Circulation::Post() {
  const int ranks = context_.ring_size;
  const Step& held = steps_[step_];
  const Step& next = steps_[step_ + 1];
  const int to = held.leaves ? (context_.rank() + 1) % ranks : Transport::kNobody;
  const int from = next.arrives ? (context_.rank() + ranks - 1) % ranks : Transport::kNobody;
  payloads_.clear();
  if (!held.leaves && !next.arrives) return absl::OkStatus();
  const bool skip = context_.Cancelling();
  sent_header_ = header_;
  sent_header_.origin = held.origin;
  sent_header_.step = step_ + 1;
  sent_header_.payload_bytes = 0;
  if (skip) sent_header_.flags |= RingHeader::kSkipped;
  for (const Stretch& stretch : held.out) sent_header_.payload_bytes += skip ? 0 : stretch.bytes;
  const absl::StatusOr<Transport::Pending> header =
      context_.transport.SendRecv(to, std::as_const(sent_header_).bytes(), from, received_header_.bytes());
  if (!header.ok()) return header.status();
  header_pending_ = *header;
  std::byte* into = buffers_[step_ % 2].Grow(buffer_bytes_);
  for (size_t i = 0; i < std::max(held.out.size(), next.in.size()); ++i) {
    const bool sends = i < held.out.size();
    const bool receives = i < next.in.size();
    absl::Span<const std::byte> out;
    absl::Span<std::byte> in;
    if (sends && !skip) out = {data(held.out[i].first), held.out[i].bytes};
    if (receives) in = {into, next.in[i]};
    const absl::StatusOr<Transport::Pending> payload =
        context_.transport.SendRecv(sends ? to : Transport::kNobody, out, receives ? from : Transport::kNobody, in);
    if (!payload.ok()) return payload.status();
    payloads_.push_back(*payload);
    into += in.size();
  }
  if (held.leaves) context_.stats.sent_bytes += sizeof(RingHeader) + sent_header_.payload_bytes;
  return absl::OkStatus();
}

absl::Status Circulation::Receive() {
  const Step& held = steps_[step_];
  const Step& next = steps_[step_ + 1];
  size_t header_bytes = 0;
  size_t payload_bytes = 0;
  if (held.leaves || next.arrives) {
    ScopedTimer timer(context_.stats.exposed_wait);
    ++context_.stats.waits;
    const absl::Time deadline = context_.Deadline();
    const absl::StatusOr<size_t> header = context_.transport.Wait(header_pending_, deadline);
    if (!header.ok()) return header.status();
    header_bytes = *header;
    for (const Transport::Pending pending : payloads_) {
      const absl::StatusOr<size_t> bytes = context_.transport.Wait(pending, deadline);
      if (!bytes.ok()) return bytes.status();
      payload_bytes += *bytes;
    }
  }
  ++step_;
  header_.flags = 0;
  if (!next.arrives) return absl::OkStatus();
  RingHeader expected = context_.Header(kind_, header_.layer, position_);
  expected.step = step_;
  expected.origin = next.origin;
  expected.payload_bytes = next.bytes;
  if (header_bytes != sizeof(RingHeader)) received_header_.magic = 0;
  const int from = (context_.rank() + context_.ring_size - 1) % context_.ring_size;
  if (absl::Status due = CheckHeader(expected, received_header_, from, payload_bytes); !due.ok()) {
    context_.transport.Abort(due);
    return due;
  }
  header_ = received_header_;
  if (header_.origin == 0 && (header_.flags & RingHeader::kStop) != 0) stop_ = true;
  if (header_.flags != 0) context_.peer_cancelled = true;
  return absl::OkStatus();
}

}  // namespace rondo
