#include "worker/ring/node_plan.h"

#include <algorithm>

namespace rondo {
namespace {

int64_t OwnedCount(absl::Span<const BlockRange> owned, BlockRange range) {
  int64_t count = 0;
  for (const BlockRange& run : owned) {
    count += BlockRange{std::max(run.begin, range.begin), std::min(run.end, range.end)}.size();
  }
  return count;
}

void Visit(NodeId node, absl::Span<const BlockRange> owned, BlockRange visible, std::vector<NodeId>& nodes) {
  const BlockRange below{std::max(node.begin(), visible.begin), std::min(node.end(), visible.end)};
  if (below.empty()) return;
  const int64_t own = OwnedCount(owned, below);
  if (own == 0) return;
  if (own == below.size()) {
    nodes.push_back(node);
    return;
  }
  Visit({node.level - 1, 2 * node.index}, owned, visible, nodes);
  Visit({node.level - 1, 2 * node.index + 1}, owned, visible, nodes);
}

}  // namespace

std::vector<NodeId> OwnNodes(absl::Span<const BlockRange> owned, BlockRange visible, int leaf_level) {
  std::vector<NodeId> nodes;
  if (visible.empty()) return nodes;
  NodeId root{leaf_level, 0};
  while (root.end() < visible.end) root = root.parent();
  Visit(root, owned, visible, nodes);
  return nodes;
}

void NodeCount::Insert(NodeId id) {
  auto at =
      std::lower_bound(ids_.begin(), ids_.end(), id.begin(), [](NodeId n, int64_t begin) { return n.begin() < begin; });
  for (;;) {
    if ((id.index & 1) == 0) {
      if (at == ids_.end() || *at != id.sibling()) break;
      at = ids_.erase(at);
    } else {
      if (at == ids_.begin() || *(at - 1) != id.sibling()) break;
      at = ids_.erase(at - 1);
    }
    id = id.parent();
  }
  ids_.insert(at, id);
}

}  // namespace rondo
