// Folds the partial nodes of one or many owners into the root of the fixed merge tree; used by LocalAttention and the
// ring, so that both finish the same tree.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "rondo/attention_kernels.h"

namespace rondo {

class ThreadPool;

// The lowest node of the tree that covers both.
NodeId CommonAncestor(NodeId a, NodeId b);

// Merges `nodes` (non-empty, ascending, covering disjoint ranges of blocks, each with `count` rows) in place and
// returns the result, whose storage is that of nodes.front(). Two neighbours merge at their lowest common ancestor and
// a missing side is the identity, so the bits are those of the whole tree however the blocks were divided into nodes:
// complete subtrees of it, as DyadicNodes gives. The ids of `nodes` change; nothing is allocated.
PartialNode FoldNodes(const AttentionKernels& kernels, const AttentionShape& shape, int64_t count,
                      absl::Span<PartialNode> nodes, ThreadPool& pool);

}  // namespace rondo
