// The decode strategy: every rank brings the same new row, attends the keys it owns, and one exchange of tree nodes
// lets every rank finish the same row with the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/aligned.h"
#include "base/thread_pool.h"
#include "rondo/attention.h"
#include "worker/ring/own_nodes.h"
#include "worker/ring/ring_context.h"

namespace rondo {

// A rank's message is a RingHeader and then, for each of its OwnNodes in ascending order, o [q_heads, head_dim],
// m [q_heads], l [q_heads] in float32. Which nodes those are follows from plan, mask and position alone.
class RingDecode {
 public:
  RingDecode(RingContext& context, const ShardPlan& plan)
      : context_(context), plan_(plan), attender_(context, 1, RowKind::kDrawn) {}

  void Begin(int64_t position);
  absl::Status Run(int32_t layer, absl::Span<const PositionRun> runs, const float* q, const float* k, const float* v,
                   float* out);

 private:
  void PlanExchange();
  RingHeader& HeaderOf(int rank) { return *reinterpret_cast<RingHeader*>(parts_[rank].data()); }
  void AttendOwn(int32_t layer, const float* q);
  absl::Status Exchange(int32_t layer);

  RingContext& context_;
  const ShardPlan& plan_;
  OwnNodeAttender attender_;
  ThreadPool serial_{1};  // one row is too little to wake threads for
  int64_t position_ = -1;
  BlockRange planned_{-1, -1};                        // what the row sees, of the exchange as planned
  std::vector<std::vector<BlockRange>> owned_;        // by rank
  std::vector<std::vector<PartialNode>> part_nodes_;  // by rank, pointing into its part
  std::vector<PartialNode> all_nodes_;                // the same, ascending
  std::vector<PartialNode> fold_;                     // scratch
  std::vector<absl::Span<std::byte>> parts_;          // by rank, header and nodes
  Scratch<std::byte> buffer_;
};

}  // namespace rondo
