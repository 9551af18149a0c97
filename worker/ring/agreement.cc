#include "worker/ring/agreement.h"

#include <vector>

namespace rondo {

absl::Status AgreeToGoOn(RingContext& context, int32_t layer, int64_t position, bool skipped) {
  ScopedTimer timer(context.stats.exposed_wait);
  ++context.stats.waits;
  std::vector<RingHeader> headers(context.ring_size);
  std::vector<absl::Span<std::byte>> parts;
  for (RingHeader& header : headers) parts.push_back(header.bytes());
  const RingHeader own = context.Header(RingHeader::kAgreement, layer, position);
  headers[context.rank()] = own;
  if (skipped || context.Cancelling()) headers[context.rank()].flags = RingHeader::kSkipped;
  if (absl::Status gathered = context.transport.AllGather(parts, context.Deadline()); !gathered.ok()) return gathered;
  context.stats.sent_bytes += sizeof(RingHeader) * (context.ring_size - 1);
  for (int rank = 0; rank < context.ring_size; ++rank) {
    RingHeader expected = own;
    expected.origin = rank;
    if (absl::Status due = CheckHeader(expected, headers[rank], rank, 0); !due.ok()) {
      context.transport.Abort(due);
      return due;
    }
    if (headers[rank].flags != 0) context.peer_cancelled = true;
  }
  // Not Cancelling(): a flag set since then is this rank's own business until the next exchange.
  return context.peer_cancelled ? context.Cancelled() : absl::OkStatus();
}

}  // namespace rondo
