// The partial results of some query rows while KV blocks arrive in any order: complete siblings of the fixed tree are
// merged as soon as both are there; used by the ring's prefill.
#pragma once

#include <cstdint>
#include <vector>

#include "rondo/attention_kernels.h"

namespace rondo {

class ThreadPool;

// A node in one stretch of memory, as it is kept and as it travels: o [count, q_heads, head_dim], m [count, q_heads], l
// [count, q_heads], float32.
inline size_t NodeFloats(const AttentionShape& shape, int64_t count) {
  return static_cast<size_t>(count) * shape.q_heads * (shape.head_dim + 2);
}
inline PartialNode NodeAt(const AttentionShape& shape, int64_t count, NodeId id, float* floats) {
  PartialNode node;
  node.id = id;
  node.o = floats;
  node.m = node.o + static_cast<size_t>(count) * shape.q_heads * shape.head_dim;
  node.l = node.m + static_cast<size_t>(count) * shape.q_heads;
  return node;
}

// Storage for nodes of at most `rows` query rows. It grows to what a layer needs and then allocates no more.
class NodePool {
 public:
  NodePool(const AttentionShape& shape, int64_t rows, TensorMemory& memory);

  PartialNode Acquire(NodeId id);
  void Release(const PartialNode& node);
  size_t reserved_bytes() const { return slabs_.size() * SlabBytes(shape_, rows_); }
  // Of one node, in whole cache lines.
  static size_t SlabBytes(const AttentionShape& shape, int64_t rows) {
    return (NodeFloats(shape, rows) + 15) / 16 * 16 * sizeof(float);
  }

 private:
  AttentionShape shape_;
  int64_t rows_;
  TensorMemory& memory_;
  std::vector<TensorBuffer> slabs_;
  std::vector<float*> free_;
};

// Results do not depend on the order of Insert: every merge joins the two children of one tree node.
class NodeForest {
 public:
  // Forgets everything; `count` query rows follow.
  void Reset(int64_t count);
  int64_t count() const { return count_; }

  // Takes a node acquired from `pool`; its blocks are disjoint from all blocks inserted before.
  void Insert(const PartialNode& node, const AttentionKernels& kernels, const AttentionShape& shape, NodePool& pool,
              ThreadPool& threads);

  // Folds the rest, a missing side being the identity, writes out [count, q_heads, head_dim] and, unless null, lse
  // [count, q_heads], and gives all storage back. Without any node the rows saw nothing: the identity is finished.
  void Finish(const AttentionKernels& kernels, const AttentionShape& shape, float* out, float* lse, NodePool& pool,
              ThreadPool& threads);

  // Gives the storage back without a result.
  void Discard(NodePool& pool);

 private:
  int64_t count_ = 0;
  std::vector<PartialNode> nodes_;  // ascending by first block
  std::vector<PartialNode> fold_;   // scratch of Finish
  std::vector<float> nothing_;      // the identity, of rows that saw nothing
};

}  // namespace rondo
