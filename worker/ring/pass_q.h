// The strategy in which queries go round the ring: each rank keeps its keys and values, and in step s attends with
// them the queries of rank (rank - s), while those of step s + 1 are in flight and the partial nodes of step s - 1 are
// on their way to the rank whose queries they answer.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/aligned.h"
#include "worker/ring/circulation.h"
#include "worker/ring/delivery.h"
#include "worker/ring/layout.h"
#include "worker/ring/node_forest.h"
#include "worker/ring/own_nodes.h"
#include "worker/ring/ring_context.h"

namespace rondo {

class PassQ {
 public:
  explicit PassQ(RingContext& context);

  // As PassKv.
  void Begin(const RingLayout& layout, int64_t position);
  absl::Status Run(int32_t layer, const float* q, float* out, float* lse);

  static std::vector<RingBuffers> Buffers(const AttentionShape& shape, const RingLayout& layout);

  // Strips as units of a circulation: how far each must go.
  static std::vector<std::vector<Circulation::Unit>> Units(const AttentionShape& shape, const RingLayout& layout);
  // Bytes of the nodes with which `holder` answers the queries of `origin`.
  static size_t PartialBytes(const AttentionShape& shape, const RingLayout& layout, int holder, int origin);

  // Storage of partial nodes so far.
  size_t node_bytes() const { return pool_.reserved_bytes() + attender_.node_bytes(); }

 private:
  // Nodes for strips of one rank from the blocks of another, in the order in which they travel.
  struct Answer {
    int peer = 0;                // the other rank
    std::vector<size_t> strips;  // those with nodes, ascending
    std::vector<size_t> ends;    // of each strip's nodes in `nodes`
    std::vector<NodeId> nodes;
    size_t bytes = 0;
  };
  static Answer PlanAnswer(const AttentionShape& shape, const RingLayout& layout, int holder, int origin);

  void AttendHeld();
  void TakeOwn();
  absl::Status PostPartials();
  absl::Status TakePartials(int step);
  void Insert(const Answer& answer, const float* floats);
  absl::Status Finish(int32_t layer, float* out, float* lse);

  RingContext& context_;
  Circulation ring_;
  Delivery delivery_;
  NodePool pool_;
  OwnNodeAttender attender_;
  RingLayout layout_;
  int64_t position_ = 0;
  int32_t layer_ = 0;
  std::vector<NodeForest> forests_;  // of own strips
  std::vector<Answer> given_;        // by step: to the rank whose queries are held
  std::vector<Answer> taken_;        // by step: from the rank that holds this rank's queries
  std::vector<PartialNode> targets_;
  std::vector<const std::byte*> own_;  // queries of own strips
  // By parity of the step; an exchange is waited for before the next but one is posted.
  Scratch<float> given_floats_[2];
  Scratch<float> taken_floats_[2];
  RingHeader given_header_[2];
  RingHeader taken_header_[2];
  Transport::Pending header_pending_[2];
  Transport::Pending floats_pending_[2];
  bool skipped_ = false;  // this layer's rows are not all computed
};

}  // namespace rondo
