#include "worker/ring/node_forest.h"

#include <algorithm>

#include "base/check.h"

namespace rondo {
namespace {

size_t NodeFloats(const AttentionShape& shape, int64_t rows) {
  return static_cast<size_t>(rows) * shape.q_heads * (shape.head_dim + 2);
}

// The nodes all lie under the tree node `top`.
PartialNode Fold(absl::Span<const PartialNode> nodes, NodeId top, int64_t count, const AttentionKernels& kernels,
                 const AttentionShape& shape, ThreadPool& threads) {
  if (nodes.size() == 1) return nodes[0];  // the identity joins from every other side and changes nothing
  RONDO_CHECK(top.level > 0);
  const NodeId left_child{top.level - 1, top.index * 2};
  const NodeId right_child{top.level - 1, top.index * 2 + 1};
  size_t split = 0;
  while (split < nodes.size() && nodes[split].id.begin() < right_child.begin()) ++split;
  if (split == 0) return Fold(nodes, right_child, count, kernels, shape, threads);
  if (split == nodes.size()) return Fold(nodes, left_child, count, kernels, shape, threads);
  PartialNode left = Fold(nodes.subspan(0, split), left_child, count, kernels, shape, threads);
  const PartialNode right = Fold(nodes.subspan(split), right_child, count, kernels, shape, threads);
  kernels.Merge(shape, count, left, right, threads);
  left.id = top;
  return left;
}

}  // namespace

PartialNode FoldTree(absl::Span<const PartialNode> nodes, int64_t count, const AttentionKernels& kernels,
                     const AttentionShape& shape, ThreadPool& threads) {
  RONDO_CHECK(!nodes.empty());
  NodeId top{0, 0};
  while (top.end() < nodes.back().id.end()) top = top.parent();
  return Fold(nodes, top, count, kernels, shape, threads);
}

NodePool::NodePool(const AttentionShape& shape, int64_t rows)
    : shape_(shape), rows_(rows), slab_floats_((NodeFloats(shape, rows) + 15) / 16 * 16) {}

PartialNode NodePool::Acquire(NodeId id) {
  if (free_.empty()) {
    slabs_.push_back(MakeAligned<float>(slab_floats_));
    free_.reserve(slabs_.size());
    free_.push_back(slabs_.back().get());
  }
  PartialNode node;
  node.id = id;
  node.o = free_.back();
  node.m = node.o + static_cast<size_t>(rows_) * shape_.q_heads * shape_.head_dim;
  node.l = node.m + static_cast<size_t>(rows_) * shape_.q_heads;
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

void NodeForest::Finish(const AttentionKernels& kernels, const AttentionShape& shape, float* out, NodePool& pool,
                        ThreadPool& threads) {
  if (nodes_.empty()) {
    std::fill_n(out, count_ * shape.q_heads * shape.head_dim, 0.0f);
    return;
  }
  kernels.Finish(shape, count_, FoldTree(nodes_, count_, kernels, shape, threads), out, nullptr, threads);
  Discard(pool);
}

void NodeForest::Discard(NodePool& pool) {
  for (const PartialNode& node : nodes_) pool.Release(node);
  nodes_.clear();
}

}  // namespace rondo
