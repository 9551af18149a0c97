#include "tests/testing/faulty_transport.h"

#include "absl/time/clock.h"

namespace rondo::testing {

absl::Status FaultyTransport::BeforeCall() {
  const double share = static_cast<double>(random_() >> 11) * 0x1p-53;
  if (plan_.longest_delay > absl::ZeroDuration()) absl::SleepFor(plan_.longest_delay * share);
  const int64_t call = calls_++;
  if (plan_.fail_at_call < 0 || call < plan_.fail_at_call) return absl::OkStatus();
  if (plan_.abort_inner && call == plan_.fail_at_call) inner_.Abort(plan_.failure);
  return plan_.failure;
}

absl::StatusOr<Transport::Pending> FaultyTransport::SendRecv(int to, absl::Span<const std::byte> send, int from,
                                                             absl::Span<std::byte> recv) {
  if (absl::Status fault = BeforeCall(); !fault.ok()) return fault;
  return inner_.SendRecv(to, send, from, recv);
}

absl::StatusOr<size_t> FaultyTransport::Wait(Pending pending, absl::Time deadline) {
  if (absl::Status fault = BeforeCall(); !fault.ok()) return fault;
  return inner_.Wait(pending, deadline);
}

absl::Status FaultyTransport::AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) {
  if (absl::Status fault = BeforeCall(); !fault.ok()) return fault;
  return inner_.AllGather(parts, deadline);
}

absl::Status FaultyTransport::Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) {
  if (absl::Status fault = BeforeCall(); !fault.ok()) return fault;
  return inner_.Broadcast(root, ranks, buffer, deadline);
}

}  // namespace rondo::testing
