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
  std::string_view name() const override { return "plain"; }

  void Attend(const AttentionShape& s, const QueryRows& queries, absl::Span<const KvBlock> run, const MaskSpec& mask,
              absl::Span<const PartialNode> nodes, ThreadPool& pool) const override {
    size_t node = 0;
    for (const PartialNode& target : nodes) {
      RONDO_CHECK(target.id.begin() == run.front().index + static_cast<int64_t>(node));
      AttendNode(s, queries, run.subspan(node, target.id.end() - target.id.begin()), mask, target, pool);
      node += target.id.end() - target.id.begin();
    }
    RONDO_CHECK(node == run.size());
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
  void AttendNode(const AttentionShape& s, const QueryRows& queries, absl::Span<const KvBlock> blocks,
                  const MaskSpec& mask, const PartialNode& target, ThreadPool& pool) const {
    if (blocks.size() == 1) return AttendBlock(s, queries, blocks[0], mask, target);
    const size_t half = blocks.size() / 2;
    PartialNode left = target;
    AttendNode(s, queries, blocks.subspan(0, half), mask, left, pool);
    std::vector<float> storage(queries.count * s.q_heads * (s.head_dim + 2));
    PartialNode right;
    right.o = storage.data();
    right.m = right.o + queries.count * s.q_heads * s.head_dim;
    right.l = right.m + queries.count * s.q_heads;
    AttendNode(s, queries, blocks.subspan(half), mask, right, pool);
    Merge(s, queries.count, left, right, pool);
  }

  static void AttendBlock(const AttentionShape& s, const QueryRows& queries, const KvBlock& block, const MaskSpec& mask,
                          const PartialNode& target) {
    const std::byte* values = block.data + KvBlockValueOffset(s);
    std::vector<float> scores(kBlockTokens);
    for (int64_t row = 0; row < queries.count; ++row) {
      const int64_t position = queries.first_position + row;
      const KeyRange keys = VisibleKeys(mask, position);
      const auto first = std::clamp<int64_t>(keys.begin - block.index * kBlockTokens, 0, block.tokens);
      const auto visible = std::clamp<int64_t>(keys.end - block.index * kBlockTokens, first, block.tokens);
      for (int64_t head = 0; head < s.q_heads; ++head) {
        const int64_t kv_head = head / (s.q_heads / s.kv_heads);
        const int64_t at = row * s.q_heads + head;
        float* o = target.o + at * s.head_dim;
        std::fill_n(o, s.head_dim, 0.0f);
        float most = kEmptyMax;
        for (int64_t key = first; key < visible; ++key) {
          float dot = 0;
          for (int64_t d = 0; d < s.head_dim; ++d) {
            dot = std::fma(queries.q[at * s.head_dim + d], Element(s, block.data, kv_head, key, d), dot);
          }
          scores[key] = dot * s.scale * 1.44269504f;
          most = std::max(most, std::ceil(scores[key]));
        }
        float sum = 0;
        for (int64_t key = first; key < visible; ++key) {
          const float p = std::exp2(scores[key] - most);
          sum += p;
          for (int64_t d = 0; d < s.head_dim; ++d) o[d] = std::fma(p, Element(s, values, kv_head, key, d), o[d]);
        }
        target.m[at] = most;
        target.l[at] = sum;
      }
    }
  }
};

}  // namespace

const AttentionKernels& PlainKernels() {
  static const Plain kernels;
  return kernels;
}

}  // namespace rondo::testing
