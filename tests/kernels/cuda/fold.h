// The definition of merge and finish in plain C++, and the fold of nodes from many shards along the fixed tree; what
// the law tests hold the kernels to.
#pragma once

#include <vector>

#include "tests/kernels/cuda/emulated.h"

namespace rondo::cuda {

// left <- left merged with right, which covers the blocks after it.
void Merge(int head_dim, Node* left, const Node& right);

// The root over all blocks from nodes that tile them; a missing sibling is the identity.
Node FoldToRoot(int head_dim, std::vector<Node> nodes);

// out and lse of a node without sinks, as the kernels finish.
Finished Finish(int head_dim, const Node& node);

}  // namespace rondo::cuda
