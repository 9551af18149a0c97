#include "tests/worker/ring/plain_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bf16.h"
#include "base/check.h"
#include "rondo/visible.h"

namespace rondo::testing {
namespace {

float Element(const AttentionShape& s, const std::byte* half, int64_t head, int64_t row, int64_t i) {
  const int64_t at = (head * kBlockTokens + row) * s.head_dim + i;
  if (s.kv_type == KvType::kF32) return reinterpret_cast<const float*>(half)[at];
  return Bf16ToFloat(reinterpret_cast<const uint16_t*>(half)[at]);
}

class Plain : public AttentionKernels {
 public:
  explicit Plain(int32_t leaf_level) : leaf_level_(leaf_level) {}
  std::string_view name() const override { return "plain"; }
  int32_t leaf_level() const override { return leaf_level_; }
  int32_t drawn_leaf_level() const override { return std::max(0, leaf_level_ - 1); }

  void Attend(const AttentionShape& s, const QueryRows& queries, absl::Span<const KvBlock> run, const MaskSpec& mask,
              absl::Span<const PartialNode> nodes, ThreadPool& pool) const override {
    RONDO_CHECK(s.leaf_level == (queries.kind == RowKind::kDrawn ? drawn_leaf_level() : leaf_level_));
    const BlockRange range = WholeLeaves({run.front().index, run.back().index + 1}, s.leaf_level);
    int64_t next = range.begin;
    for (const PartialNode& target : nodes) {
      RONDO_CHECK(target.id.begin() == next);
      next = target.id.end();
      AttendNode(s, queries, run, mask, target, pool);
    }
    RONDO_CHECK(next == range.end);
  }

  void Merge(const AttentionShape& s, int64_t count, const PartialNode& left, const PartialNode& right,
             ThreadPool&) const override {
    for (int64_t i = 0; i < count * s.q_heads; ++i) {
      if (right.l[i] == 0) continue;
      float* o = left.o + i * s.head_dim;
      const float* r = right.o + i * s.head_dim;
      if (left.l[i] == 0) {
        std::copy_n(r, s.head_dim, o);
        left.m[i] = right.m[i];
        left.l[i] = right.l[i];
        continue;
      }
      const float m = std::max(left.m[i], right.m[i]);
      const float wl = std::exp2(left.m[i] - m);
      const float wr = std::exp2(right.m[i] - m);
      left.m[i] = m;
      left.l[i] = std::fma(left.l[i], wl, right.l[i] * wr);
      for (int32_t d = 0; d < s.head_dim; ++d) o[d] = std::fma(o[d], wl, r[d] * wr);
    }
  }

  void Finish(const AttentionShape& s, int64_t count, const PartialNode& node, float* out, float* lse,
              ThreadPool&) const override {
    for (int64_t i = 0; i < count * s.q_heads; ++i) {
      const bool empty = node.l[i] == 0;
      const float inverse = empty ? 0 : 1 / node.l[i];
      for (int32_t d = 0; d < s.head_dim; ++d) {
        out[i * s.head_dim + d] = empty ? 0 : node.o[i * s.head_dim + d] * inverse + 0.0f;
      }
      if (lse != nullptr) {
        lse[i] = empty ? -std::numeric_limits<float>::infinity()
                       : static_cast<float>((node.m[i] + std::log2(node.l[i])) * 0.6931471805599453);
      }
    }
  }

 private:
  void AttendNode(const AttentionShape& s, const QueryRows& queries, absl::Span<const KvBlock> run,
                  const MaskSpec& mask, const PartialNode& target, ThreadPool& pool) const {
    if (target.id.level == s.leaf_level) return AttendLeaf(s, queries, run, mask, target);
    PartialNode left = target;
    left.id = {target.id.level - 1, 2 * target.id.index};
    AttendNode(s, queries, run, mask, left, pool);
    std::vector<float> storage(queries.count * s.q_heads * (s.head_dim + 2));
    PartialNode right;
    right.id = left.id.sibling();
    right.o = storage.data();
    right.m = right.o + queries.count * s.q_heads * s.head_dim;
    right.l = right.m + queries.count * s.q_heads;
    AttendNode(s, queries, run, mask, right, pool);
    Merge(s, queries.count, left, right, pool);
  }

  struct Key {
    float score;
    const KvBlock* block;
    int64_t row;
  };

  static void AttendLeaf(const AttentionShape& s, const QueryRows& queries, absl::Span<const KvBlock> run,
                         const MaskSpec& mask, const PartialNode& target) {
    std::vector<Key> keys;
    for (int64_t row = 0; row < queries.count; ++row) {
      const KeyRange visible = VisibleKeys(mask, queries.first_position + row);
      for (int64_t head = 0; head < s.q_heads; ++head) {
        const int64_t kv_head = head / (s.q_heads / s.kv_heads);
        const int64_t at = row * s.q_heads + head;
        float most = kEmptyMax;
        keys.clear();
        for (const KvBlock& block : run) {
          if (block.index < target.id.begin() || block.index >= target.id.end()) continue;
          for (int64_t key = 0; key < block.tokens; ++key) {
            const int64_t position = block.index * kBlockTokens + key;
            if (position < visible.begin || position >= visible.end) continue;
            float dot = 0;
            for (int64_t d = 0; d < s.head_dim; ++d) {
              dot = std::fma(queries.q[at * s.head_dim + d], Element(s, block.data, kv_head, key, d), dot);
            }
            keys.push_back({dot * s.scale * 1.44269504f, &block, key});
            most = std::max(most, std::ceil(keys.back().score));
          }
        }
        float* o = target.o + at * s.head_dim;
        std::fill_n(o, s.head_dim, 0.0f);
        float sum = 0;
        for (const Key& key : keys) {
          const float p = std::exp2(key.score - most);
          const std::byte* values = key.block->data + KvBlockValueOffset(s);
          sum += p;
          for (int64_t d = 0; d < s.head_dim; ++d) o[d] = std::fma(p, Element(s, values, kv_head, key.row, d), o[d]);
        }
        target.m[at] = most;
        target.l[at] = sum;
      }
    }
  }

  int32_t leaf_level_;
};

}  // namespace

const AttentionKernels& PlainKernels(int32_t leaf_level) {
  static const Plain kernels[] = {Plain(0), Plain(1), Plain(2)};
  return kernels[leaf_level];
}

}  // namespace rondo::testing
