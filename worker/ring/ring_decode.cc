#include "worker/ring/ring_decode.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "kernels/fold_nodes.h"
#include "rondo/visible.h"
#include "worker/ring/node_plan.h"

namespace rondo {

void RingDecode::Begin(int64_t position) {
  RONDO_CHECK(position >= 0 && position < context_.kv.max_sequence_tokens());
  position_ = position;
  const BlockRange visible = VisibleBlocks(context_.mask, position, position + 1, {0, BlocksFor(position + 1)});
  if (visible == planned_) return;
  planned_ = visible;
  PlanExchange();
}

void RingDecode::PlanExchange() {
  const AttentionShape& shape = attender_.shape();
  const size_t node_bytes = sizeof(float) * NodeFloats(shape, 1);
  owned_.clear();
  part_nodes_.assign(context_.ring_size, {});
  size_t bytes = 0;
  std::vector<size_t> offsets;
  for (int rank = 0; rank < context_.ring_size; ++rank) {
    owned_.push_back(plan_.OwnedBlocks(position_ + 1, rank));
    for (const NodeId id : OwnNodes(owned_.back(), planned_, shape.leaf_level)) {
      part_nodes_[rank].push_back({id, nullptr, nullptr, nullptr});
    }
    offsets.push_back(bytes);
    bytes += (sizeof(RingHeader) + part_nodes_[rank].size() * node_bytes + 63) / 64 * 64;
  }
  std::byte* const base = buffer_.Get(bytes);
  parts_.clear();
  all_nodes_.clear();
  for (int rank = 0; rank < context_.ring_size; ++rank) {
    parts_.emplace_back(base + offsets[rank], sizeof(RingHeader) + part_nodes_[rank].size() * node_bytes);
    new (parts_[rank].data()) RingHeader;
    auto* floats = reinterpret_cast<float*>(parts_[rank].data() + sizeof(RingHeader));
    for (PartialNode& node : part_nodes_[rank]) {
      node = NodeAt(shape, 1, node.id, floats);
      floats += NodeFloats(shape, 1);
      all_nodes_.push_back(node);
    }
  }
  std::sort(all_nodes_.begin(), all_nodes_.end(),
            [](const PartialNode& a, const PartialNode& b) { return a.id.begin() < b.id.begin(); });
}

absl::Status RingDecode::Run(int32_t layer, absl::Span<const PositionRun> runs, const float* q, const float* k,
                             const float* v, float* out) {
  RONDO_CHECK(runs.size() == 1 && runs[0].begin == position_ && runs[0].end == position_ + 1);
  context_.kv.Store(layer, runs, k, v);
  HeaderOf(context_.rank()) = context_.Header(RingHeader::kNodes, layer, position_);
  HeaderOf(context_.rank()).payload_bytes = parts_[context_.rank()].size() - sizeof(RingHeader);
  if (context_.Cancelling()) {
    HeaderOf(context_.rank()).flags = RingHeader::kSkipped;
  } else {
    AttendOwn(layer, q);
  }
  if (absl::Status exchanged = Exchange(layer); !exchanged.ok()) return exchanged;
  ScopedTimer timer(context_.stats.compute);
  fold_ = all_nodes_;
  const PartialNode top = FoldNodes(context_.kernels, attender_.shape(), 1, absl::MakeSpan(fold_), serial_);
  context_.kernels.Finish(attender_.shape(), 1, top, out, nullptr, serial_);
  return absl::OkStatus();
}

void RingDecode::AttendOwn(int32_t layer, const float* q) {
  ScopedTimer timer(context_.stats.compute);
  attender_.View(owned_[context_.rank()], layer, position_ + 1);
  attender_.Attend({position_, 0, 1, planned_}, q, part_nodes_[context_.rank()], serial_);
}

absl::Status RingDecode::Exchange(int32_t layer) {
  const bool skipped = HeaderOf(context_.rank()).flags != 0;
  if (context_.ring_size == 1) return skipped ? context_.Cancelled() : absl::OkStatus();
  ScopedTimer timer(context_.stats.exposed_wait);
  ++context_.stats.waits;
  if (absl::Status gathered = context_.transport.AllGather(parts_, context_.Deadline()); !gathered.ok()) {
    return gathered;
  }
  context_.stats.sent_bytes += parts_[context_.rank()].size() * (context_.ring_size - 1);
  for (int rank = 0; rank < context_.ring_size; ++rank) {
    RingHeader expected = context_.Header(RingHeader::kNodes, layer, position_);
    expected.origin = rank;
    expected.payload_bytes = parts_[rank].size() - sizeof(RingHeader);
    if (absl::Status due = CheckHeader(expected, HeaderOf(rank), rank, expected.payload_bytes); !due.ok()) {
      context_.transport.Abort(due);
      return due;
    }
    if (HeaderOf(rank).flags != 0) context_.peer_cancelled = true;
  }
  return context_.peer_cancelled ? context_.Cancelled() : absl::OkStatus();
}

}  // namespace rondo
