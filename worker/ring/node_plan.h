// Which partial nodes a holder of some blocks gives to whoever finishes a row: the fewest that the law allows; used
// where nodes travel (pass-Q, decode). Pure; sender and receiver both call it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rondo/canonical.h"

namespace rondo {

// The largest tree nodes whose blocks inside `visible` are not none and all in `owned` (ascending, disjoint, maximal);
// in ascending order. Blocks outside `visible` are the identity of a merge, so such a node is the fold of what its
// holder has of it, and nobody else has a part in it. Each is a fold of one or more neighbours among the complete
// subtrees DyadicNodes(run of owned, inside visible). At most 2 * log2 of them for each run, and often fewer.
// No node is less than a leaf, and `owned` divides none.
std::vector<NodeId> OwnNodes(absl::Span<const BlockRange> owned, BlockRange visible, int leaf_level);

// The ids a NodeForest holds, for planning its memory: siblings that meet become their parent.
class NodeCount {
 public:
  void Insert(NodeId id);
  size_t size() const { return ids_.size(); }

 private:
  std::vector<NodeId> ids_;  // ascending by first block
};

}  // namespace rondo
