// Computes what one rank's own blocks give to a strip of queries: the nodes of OwnNodes; used by pass-Q and decode.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "worker/ring/layout.h"
#include "worker/ring/node_forest.h"
#include "worker/ring/ring_context.h"

namespace rondo {

class OwnNodeAttender {
 public:
  OwnNodeAttender(RingContext& context, int64_t most_rows, RowKind kind)
      : context_(context),
        kind_(kind),
        shape_(ShapeOf(context, kind)),
        pool_(shape_, most_rows, context.kernels.memory()) {}

  // That of the keys, with the leaves of such rows.
  const AttentionShape& shape() const { return shape_; }

  // Names this rank's blocks of `owned` in one layer; until the next call.
  void View(absl::Span<const BlockRange> owned, int32_t layer, int64_t kv_tokens);

  // q [strip.count, q_heads, head_dim]. `targets` have the ids OwnNodes(owned, strip.visible), in order, and storage
  // for strip.count rows.
  void Attend(const Strip& strip, const float* q, absl::Span<const PartialNode> targets, ThreadPool& merge_threads);

  size_t node_bytes() const { return pool_.reserved_bytes(); }  // so far

 private:
  static AttentionShape ShapeOf(const RingContext& context, RowKind kind) {
    AttentionShape shape = context.kv.shape();
    if (kind == RowKind::kDrawn) shape.leaf_level = context.kernels.drawn_leaf_level();
    return shape;
  }

  RingContext& context_;
  const RowKind kind_;
  const AttentionShape shape_;
  NodePool pool_;
  std::vector<std::vector<KvBlock>> runs_;
  std::vector<PartialNode> parts_;
  std::vector<PartialNode> fold_;
};

}  // namespace rondo
