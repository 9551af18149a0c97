#include "kernels/fold_nodes.h"

#include "base/check.h"

namespace rondo {

NodeId CommonAncestor(NodeId a, NodeId b) {
  while (a != b) {
    NodeId& lower = a.level <= b.level ? a : b;
    lower = lower.parent();
  }
  return a;
}

// nodes[0, depth) is a stack of finished subtrees. Ancestors of neighbours sit at different levels (two at the same
// level above one node would be one and the same, with that node on both of its sides), so the lower one is always
// complete before the higher one begins.
PartialNode FoldNodes(const AttentionKernels& kernels, const AttentionShape& shape, int64_t count,
                      absl::Span<PartialNode> nodes, ThreadPool& pool) {
  RONDO_CHECK(!nodes.empty());
  size_t depth = 0;
  const auto merge_top = [&] {
    PartialNode& left = nodes[depth - 2];
    const PartialNode& right = nodes[depth - 1];
    kernels.Merge(shape, count, left, right, pool);
    left.id = CommonAncestor(left.id, right.id);
    --depth;
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const PartialNode next = nodes[i];
    if (depth > 0) RONDO_CHECK(nodes[depth - 1].id.end() <= next.id.begin());
    while (depth >= 2 && CommonAncestor(nodes[depth - 2].id, nodes[depth - 1].id).level <
                             CommonAncestor(nodes[depth - 1].id, next.id).level) {
      merge_top();
    }
    nodes[depth++] = next;
  }
  while (depth >= 2) merge_top();
  return nodes[0];
}

}  // namespace rondo
