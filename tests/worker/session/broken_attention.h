// Attention that breaks the fixed merge tree on purpose: the control by which the law tests show that they can fail.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "rondo/attention_kernels.h"

namespace rondo::testing {

// Attends block by block through `inner` and merges the blocks of a node itself: along the tree, which changes nothing,
// or from left to right, whatever the tree says. The second gives one block's partial the same bits and every answer
// the same value up to rounding: the mildest mistake there
// is. (Swapping the two sides of a merge would be none: its weights are powers of two, so its sums commute.)
class SelfMergingAttention : public AttentionKernels {
 public:
  enum class Order { kTree, kLeftToRight };
  SelfMergingAttention(const AttentionKernels& inner, Order order) : inner_(inner), order_(order) {}

  std::string_view name() const override { return "self-merging"; }

  void Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
              const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const override {
    const size_t heads = static_cast<size_t>(queries.count) * shape.q_heads;
    const size_t node_floats = heads * (shape.head_dim + 2);
    for (const PartialNode& node : nodes) {
      const int64_t blocks = node.id.end() - node.id.begin();
      std::vector<float> storage(node_floats * blocks);
      std::vector<PartialNode> parts;
      for (int64_t b = 0; b < blocks; ++b) {
        float* at = storage.data() + b * node_floats;
        parts.push_back({{0, node.id.begin() + b}, at, at + heads * shape.head_dim, at + heads * (shape.head_dim + 1)});
        const size_t index = node.id.begin() + b - run.front().index;
        inner_.Attend(shape, queries, run.subspan(index, 1), mask, absl::MakeConstSpan(&parts.back(), 1), pool);
      }
      if (order_ == Order::kLeftToRight) {
        for (int64_t b = 1; b < blocks; ++b) inner_.Merge(shape, queries.count, parts[0], parts[b], pool);
      } else {
        for (int64_t step = 1; step < blocks; step *= 2) {
          for (int64_t b = 0; b < blocks; b += 2 * step) {
            inner_.Merge(shape, queries.count, parts[b], parts[b + step], pool);
          }
        }
      }
      std::copy_n(parts[0].o, heads * shape.head_dim, node.o);
      std::copy_n(parts[0].m, heads, node.m);
      std::copy_n(parts[0].l, heads, node.l);
    }
  }
  void Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
             ThreadPool& pool) const override {
    inner_.Merge(shape, count, left, right, pool);
  }
  void Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
              ThreadPool& pool) const override {
    inner_.Finish(shape, count, node, out, lse, pool);
  }

 private:
  const AttentionKernels& inner_;
  const Order order_;
};

}  // namespace rondo::testing
