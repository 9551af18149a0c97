#include "worker/ring/delivery.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"

namespace rondo {
namespace {

std::vector<int64_t> Blocks(const RingLayout& layout, int from, int to) {
  std::vector<int64_t> blocks;
  if (from == to) return blocks;
  for (const BlockRange& run : layout.blocks[from]) {
    for (int64_t block = run.begin; block < run.end; ++block) {
      if (Contains(layout.kept[to], block)) blocks.push_back(block);
    }
  }
  return blocks;
}

}  // namespace

size_t Delivery::Bytes(const AttentionShape& shape, const RingLayout& layout, int from, int to) {
  return Blocks(layout, from, to).size() * KvBlockBytes(shape);
}

void Delivery::Plan(const RingLayout& layout, int64_t position) {
  const int ranks = context_.ring_size;
  position_ = position;
  exchanges_.clear();
  for (int d = 1; d < ranks; ++d) {
    Exchange exchange;
    exchange.to = (context_.rank() + d) % ranks;
    exchange.from = (context_.rank() + ranks - d) % ranks;
    exchange.out = Blocks(layout, context_.rank(), exchange.to);
    exchange.in = Blocks(layout, exchange.from, context_.rank());
    if (exchange.out.empty()) exchange.to = Transport::kNobody;
    if (exchange.in.empty()) exchange.from = Transport::kNobody;
    exchange.blocks.reserve(std::max(exchange.out.size(), exchange.in.size()));
    if (!exchange.out.empty() || !exchange.in.empty()) exchanges_.push_back(std::move(exchange));
  }
}

absl::Status Delivery::Post(int32_t layer) {
  layer_ = layer;
  for (Exchange& exchange : exchanges_) {
    if (absl::Status posted = PostOne(exchange, layer); !posted.ok()) return posted;
  }
  return absl::OkStatus();
}

absl::Status Delivery::PostOne(Exchange& exchange, int32_t layer) {
  const size_t block_bytes = KvBlockBytes(context_.kv.shape());
  const bool skip = context_.Cancelling();
  exchange.sent = context_.Header(RingHeader::kKept, layer, position_);
  exchange.sent.payload_bytes = skip ? 0 : exchange.out.size() * block_bytes;
  if (skip) exchange.sent.flags = RingHeader::kSkipped;
  const absl::StatusOr<Transport::Pending> header = context_.transport.SendRecv(
      exchange.to, std::as_const(exchange.sent).bytes(), exchange.from, exchange.received.bytes());
  if (!header.ok()) return header.status();
  exchange.header = *header;
  exchange.blocks.clear();
  for (size_t i = 0; i < std::max(exchange.out.size(), exchange.in.size()); ++i) {
    const bool sends = i < exchange.out.size();
    const bool receives = i < exchange.in.size();
    absl::Span<const std::byte> out;
    absl::Span<std::byte> in;
    if (sends && !skip) out = {context_.kv.Block(layer, exchange.out[i]), block_bytes};
    if (receives) in = {context_.kv.Block(layer, exchange.in[i]), block_bytes};
    const absl::StatusOr<Transport::Pending> block = context_.transport.SendRecv(
        sends ? exchange.to : Transport::kNobody, out, receives ? exchange.from : Transport::kNobody, in);
    if (!block.ok()) return block.status();
    exchange.blocks.push_back(*block);
  }
  if (!exchange.out.empty()) context_.stats.sent_bytes += sizeof(RingHeader) + exchange.sent.payload_bytes;
  return absl::OkStatus();
}

absl::Status Delivery::Finish() {
  for (Exchange& exchange : exchanges_) {
    if (absl::Status finished = FinishOne(exchange); !finished.ok()) return finished;
  }
  return absl::OkStatus();
}

absl::Status Delivery::FinishOne(Exchange& exchange) {
  ScopedTimer timer(context_.stats.exposed_wait);
  ++context_.stats.waits;
  const absl::Time deadline = context_.Deadline();
  const absl::StatusOr<size_t> header_bytes = context_.transport.Wait(exchange.header, deadline);
  if (!header_bytes.ok()) return header_bytes.status();
  size_t payload_bytes = 0;
  for (const Transport::Pending block : exchange.blocks) {
    const absl::StatusOr<size_t> bytes = context_.transport.Wait(block, deadline);
    if (!bytes.ok()) return bytes.status();
    payload_bytes += *bytes;
  }
  if (exchange.in.empty()) return absl::OkStatus();
  RingHeader expected = context_.Header(RingHeader::kKept, layer_, position_);
  expected.origin = exchange.from;
  expected.payload_bytes = exchange.in.size() * KvBlockBytes(context_.kv.shape());
  if (*header_bytes != sizeof(RingHeader)) exchange.received.magic = 0;
  if (absl::Status due = CheckHeader(expected, exchange.received, exchange.from, payload_bytes); !due.ok()) {
    context_.transport.Abort(due);
    return due;
  }
  if (exchange.received.flags != 0) context_.peer_cancelled = true;
  return absl::OkStatus();
}

}  // namespace rondo
