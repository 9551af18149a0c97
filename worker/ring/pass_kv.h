// The prefill strategy in which keys and values go round the ring: each rank keeps its queries, and in step s attends
// the blocks of rank (rank - s) while those of step s + 1 are in flight.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/aligned.h"
#include "rondo/attention.h"
#include "worker/ring/node_forest.h"
#include "worker/ring/ring_context.h"

namespace rondo {

class PassKv {
 public:
  explicit PassKv(RingContext& context);

  void Begin(int64_t chunk);
  absl::Status Run(int32_t layer, absl::Span<const PositionRun> runs, const float* q, const float* k, const float* v,
                   float* out);

  // Of one of the two: the most blocks any rank owns of the prompt. 0 for one rank.
  static size_t ReceiveBufferBytes(const AttentionShape& shape, const ShardPlan& plan);

 private:
  // Rows of one canonical block: short enough to notice a cancellation and to skip blocks none of its rows may see.
  struct Strip {
    int64_t first_position = 0;
    int64_t first_row = 0;  // in q and out
    NodeForest forest;
  };
  // The blocks this rank looks at in a step, and what came with them.
  struct Held {
    RingHeader header;
    absl::Span<const std::byte> blocks;
  };
  struct Posted {
    Transport::Pending header;
    Transport::Pending blocks;
  };

  Held Own(int32_t layer);
  absl::StatusOr<Posted> PassOn(const Held& held, int step);
  void Attend(const Held& held, bool last, const float* q, float* out);
  void AttendStrip(Strip& strip, const float* q);
  absl::StatusOr<Held> Receive(const Posted& posted, const Held& previous, int step);
  absl::Status EndLayer(int32_t layer, float* out);

  RingContext& context_;
  NodePool pool_;
  int64_t rows_ = 0;
  PositionRun chunk_;
  std::vector<PositionRun> runs_;
  std::vector<Strip> strips_;
  std::vector<std::vector<BlockRange>> owned_;    // by rank, of [0, chunk end)
  std::vector<std::vector<KvBlock>> block_runs_;  // of the blocks held
  std::vector<PartialNode> nodes_;
  bool stop_ = false;     // rank 0 has said that this layer is the last
  bool skipped_ = false;  // this layer's rows are not all computed
  RingHeader sent_header_;
  RingHeader received_header_;
  AlignedArray<std::byte> buffers_[2];
  size_t buffer_bytes_ = 0;
};

}  // namespace rondo
