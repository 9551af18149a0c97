#include "worker/ring/node_forest.h"

#include <algorithm>

#include "absl/types/span.h"
#include "base/check.h"
#include "kernels/fold_nodes.h"

namespace rondo {

NodePool::NodePool(const AttentionShape& shape, int64_t rows, TensorMemory& memory)
    : shape_(shape), rows_(rows), memory_(memory) {}

PartialNode NodePool::Acquire(NodeId id) {
  if (free_.empty()) {
    slabs_.emplace_back(memory_);
    free_.reserve(slabs_.size());
    free_.push_back(reinterpret_cast<float*>(slabs_.back().Grow(SlabBytes(shape_, rows_))));
  }
  const PartialNode node = NodeAt(shape_, rows_, id, free_.back());
  free_.pop_back();
  return node;
}

void NodePool::Release(const PartialNode& node) { free_.push_back(node.o); }

void NodeForest::Reset(int64_t count) {
  RONDO_CHECK(nodes_.empty());
  count_ = count;
}

void NodeForest::Insert(const PartialNode& node, const AttentionKernels& kernels, const AttentionShape& shape,
                        NodePool& pool, ThreadPool& threads) {
  auto at = std::lower_bound(nodes_.begin(), nodes_.end(), node.id.begin(),
                             [](const PartialNode& n, int64_t begin) { return n.id.begin() < begin; });
  at = nodes_.insert(at, node);
  while (true) {
    const NodeId sibling = at->id.sibling();
    auto left = at;
    if ((at->id.index & 1) == 0) {
      if (at + 1 == nodes_.end() || (at + 1)->id != sibling) return;
    } else {
      if (at == nodes_.begin() || (at - 1)->id != sibling) return;
      left = at - 1;
    }
    kernels.Merge(shape, count_, *left, *(left + 1), threads);
    pool.Release(*(left + 1));
    left->id = left->id.parent();
    at = nodes_.erase(left + 1) - 1;
  }
}

void NodeForest::Finish(const AttentionKernels& kernels, const AttentionShape& shape, float* out, float* lse,
                        NodePool& pool, ThreadPool& threads) {
  if (nodes_.empty()) {
    nothing_.assign(NodeFloats(shape, count_), 0.0f);
    const PartialNode identity = NodeAt(shape, count_, NodeId{}, nothing_.data());
    std::fill_n(identity.m, count_ * shape.q_heads, kEmptyMax);
    kernels.Finish(shape, count_, identity, out, lse, threads);
    return;
  }
  fold_ = nodes_;
  const PartialNode root = FoldNodes(kernels, shape, count_, absl::MakeSpan(fold_), threads);
  kernels.Finish(shape, count_, root, out, lse, threads);
  Discard(pool);
}

void NodeForest::Discard(NodePool& pool) {
  for (const PartialNode& node : nodes_) pool.Release(node);
  nodes_.clear();
}

}  // namespace rondo
