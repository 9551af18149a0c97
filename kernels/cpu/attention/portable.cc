// Attention in plain code, one row and head at a time, every operation where the definition puts it: the bits that
// the other CPU kernels are tested against. Slow and without tricks; an answer from it is the right answer.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/bf16.h"
#include "base/thread_pool.h"
#include "kernels/cpu/attention/definition.h"
#include "kernels/cpu/attention/factories.h"
#include "kernels/cpu/attention/lse.h"
#include "kernels/cpu/attention/score_settings.h"
#include "kernels/cpu/attention/tree_stack.h"
#include "kernels/cpu/attention/visible.h"

namespace rondo {
namespace {

using namespace attention;

// (m, l, o) of one row and head.
struct Partial {
  float m = kEmptyMax;
  float l = 0;
  std::vector<float> o;
};

// 2^(s - m), m an integer, s <= m or NaN never (the caller has clamped it).
float Weight(float s, float m) {
  s = std::max(s, m - kFlushDepth);
  const float n = std::nearbyint(s);
  const float f = s - n;
  float p = kExp2[5];
  for (int i = 4; i >= 0; --i) p = std::fma(p, f, kExp2[i]);
  // p is in [0.7, 1.42]: multiplying by 2^(n - m) in double is exact, and so is the rounding unless it is to be +0.
  const double scaled = std::ldexp(static_cast<double>(p), static_cast<int>(n - m));
  return scaled < kSmallestNormal ? 0.0f : static_cast<float>(scaled);
}

// cap * tanh(s / cap), both in units of log2.
float SoftCap(float s, float softcap) {
  if (std::isnan(s)) return s;
  const float x = std::max(kFlatTanh, std::abs(s) * CapRate(softcap));  // t = 2^x, tanh = (1 - t) / (1 + t)
  const float n = std::nearbyint(x);
  const float f = x - n;
  float p = kExp2Minus1[4];
  for (int i = 3; i >= 0; --i) p = std::fma(p, f, kExp2Minus1[i]);
  const float w = std::ldexp(1.0f, static_cast<int>(n));  // t = w + h
  const float h = w * (p * f);
  return std::copysign(CapInLog2(softcap) * (((1.0f - w) - h) / ((1.0f + w) + h)), s);
}

// NaN counts as the lowest.
float Clamped(float s) { return s > kMinScore ? std::min(s, kMaxScore) : kMinScore; }

// What becomes of a score.
float Transform(const ScoreSpec& score, int32_t head, int64_t distance, float s) {
  if (score.softcap != 0) s = SoftCap(s, score.softcap);
  if (score.alibi_slopes != nullptr) {
    s = std::fma(BiasSlope(score.alibi_slopes[head]), static_cast<float>(std::abs(distance)), s);
  }
  return Clamped(s);
}

// 2^d for an integer d <= 0.
float PowerOfTwo(float d) { return d < -126.0f ? 0.0f : std::ldexp(1.0f, static_cast<int>(d)); }

void MergePartials(float* m, float* l, float* o, float right_m, float right_l, const float* right_o, int head_dim) {
  if (right_l == 0) return;
  if (*l == 0) {
    *m = right_m;
    *l = right_l;
    std::copy_n(right_o, head_dim, o);
    return;
  }
  const float max = std::max(*m, right_m);
  const float left_weight = PowerOfTwo(*m - max), right_weight = PowerOfTwo(right_m - max);
  *m = max;
  *l = std::fma(*l, left_weight, right_l * right_weight);
  for (int d = 0; d < head_dim; ++d) o[d] = std::fma(o[d], left_weight, right_o[d] * right_weight);
}

// The sink as the partial of one more key, which has no value.
void MergeSink(Partial* root, float sink) {
  const float s = Clamped(SinkInLog2(sink));
  const float m = std::ceil(s) + 0.0f;
  const std::vector<float> none(root->o.size());
  MergePartials(&root->m, &root->l, root->o.data(), m, Weight(s, m), none.data(), static_cast<int>(none.size()));
}

// The keys and values of one KV head of one block, element by element.
class HeadRows {
 public:
  HeadRows(const AttentionShape& shape, const KvBlock& block, int32_t kv_head)
      : head_dim_(shape.head_dim), bf16_(shape.kv_type == KvType::kBf16) {
    const size_t head = static_cast<size_t>(kv_head) * kBlockTokens * shape.head_dim * ElementBytes(shape.kv_type);
    keys_ = block.data + head;
    values_ = block.data + KvBlockValueOffset(shape) + head;
  }
  float Key(int64_t row, int d) const { return At(keys_, row, d); }
  float Value(int64_t row, int d) const { return At(values_, row, d); }

 private:
  float At(const std::byte* rows, int64_t row, int d) const {
    const size_t i = static_cast<size_t>(row) * head_dim_ + d;
    return bf16_ ? Bf16ToFloat(reinterpret_cast<const uint16_t*>(rows)[i]) : reinterpret_cast<const float*>(rows)[i];
  }
  int head_dim_;
  bool bf16_;
  const std::byte* keys_;
  const std::byte* values_;
};

// Calls fn(i) for every i of [begin, end) in the order of the definition: ascending, or in bf16 each pair (2j, 2j + 1)
// the odd one first.
template <typename Fn>
void InOrder(bool paired, int64_t begin, int64_t end, Fn&& fn) {
  if (!paired) {
    for (int64_t i = begin; i < end; ++i) fn(i);
    return;
  }
  for (int64_t even = begin & ~int64_t{1}; even < end; even += 2) {
    if (even + 1 < end) fn(even + 1);
    if (even >= begin) fn(even);
  }
}

class Portable final : public AttentionKernels {
 public:
  std::string_view name() const override { return "portable"; }

  void Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
              const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const override {
    pool.Run(queries.count * shape.q_heads, [&](int64_t pair, int) {
      const int64_t position = queries.first_position + pair / shape.q_heads;
      const KeyRange visible = VisibleKeys(mask, position);
      const float* q = queries.q + pair * shape.head_dim;
      const int32_t head = static_cast<int32_t>(pair % shape.q_heads);
      for (const PartialNode& node : nodes) {
        const Partial result = Node(shape, q, head, position, visible, run, node.id);
        node.m[pair] = result.m;
        node.l[pair] = result.l;
        std::copy_n(result.o.begin(), shape.head_dim, node.o + pair * shape.head_dim);
      }
    });
  }

  void Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
             ThreadPool& pool) const override {
    pool.Run(count, [&](int64_t row, int) {
      for (int64_t i = row * shape.q_heads; i < (row + 1) * shape.q_heads; ++i) {
        MergePartials(&left.m[i], &left.l[i], left.o + i * shape.head_dim, right.m[i], right.l[i],
                      right.o + i * shape.head_dim, shape.head_dim);
      }
    });
  }

  void Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
              ThreadPool& pool) const override {
    pool.Run(count, [&](int64_t row, int) {
      for (int64_t i = row * shape.q_heads; i < (row + 1) * shape.q_heads; ++i) {
        const float* sink = shape.score.sinks == nullptr ? nullptr : shape.score.sinks + i % shape.q_heads;
        Partial root{node.m[i], node.l[i], {node.o + i * shape.head_dim, node.o + (i + 1) * shape.head_dim}};
        if (sink != nullptr) MergeSink(&root, *sink);
        const float inverse = 1.0f / root.l;
        for (int32_t d = 0; d < shape.head_dim; ++d) {
          const float x = root.l == 0 ? 0.0f : root.o[d] * inverse + 0.0f;
          out[i * shape.head_dim + d] = std::isnan(x) ? std::bit_cast<float>(kNaN) : x;
        }
        if (lse == nullptr) continue;
        lse[i] = sink != nullptr && node.l[i] == 0 ? *sink : NaturalLse(root.m, root.l);
      }
    });
  }

 private:
  static Partial Node(const AttentionShape& shape, const float* q, int32_t head, int64_t position,
                      const KeyRange& visible, absl::Span<const KvBlock> run, NodeId id) {
    const int32_t kv_head = head / (shape.q_heads / shape.kv_heads);
    Partial slots[66];
    TreeStack stack;
    const auto merge = [&](int i) {
      Partial &left = slots[i], &right = slots[i + 1];
      MergePartials(&left.m, &left.l, left.o.data(), right.m, right.l, right.o.data(), shape.head_dim);
    };
    const int64_t front = run.front().index;
    const BlockRange blocks = BlocksWith(visible, {id.begin(), id.end()});
    for (int64_t b = blocks.begin; b < blocks.end; ++b) {
      const KvBlock& block = run[b - front];
      const KeyRange rows = VisibleRows(visible, block);
      if (rows.empty()) continue;
      slots[stack.top()] = Block(shape, q, head, position - b * kBlockTokens, HeadRows(shape, block, kv_head), rows);
      stack.Push({0, b}, merge);
    }
    stack.Collapse(merge);
    if (stack.depth() == 0) return {kEmptyMax, 0, std::vector<float>(shape.head_dim)};
    return std::move(slots[0]);
  }

  // The query is `distance` keys after the first of the block.
  static Partial Block(const AttentionShape& shape, const float* q, int32_t head, int64_t distance,
                       const HeadRows& block, const KeyRange& rows) {
    const bool bf16 = shape.kv_type == KvType::kBf16;
    const float factor = static_cast<float>(shape.scale * kLog2E);
    float scaled[256];
    for (int d = 0; d < shape.head_dim; ++d) {
      scaled[d] = q[d] * factor;
      if (bf16) scaled[d] = Bf16ToFloat(FloatToBf16(scaled[d]));
    }
    Partial out{kMinScore, 0, std::vector<float>(shape.head_dim)};
    float s[kBlockTokens];
    for (int64_t k = rows.begin; k < rows.end; ++k) {
      s[k] = 0;
      InOrder(bf16, 0, shape.head_dim, [&](int64_t d) { s[k] = std::fma(scaled[d], block.Key(k, d), s[k]); });
      s[k] = Transform(shape.score, head, distance - k, s[k]);
      out.m = std::max(out.m, std::ceil(s[k]) + 0.0f);  // never -0
    }
    float p[kBlockTokens];
    for (int64_t k = rows.begin; k < rows.end; ++k) {
      p[k] = Weight(s[k], out.m);
      out.l += p[k];
      if (bf16) p[k] = Bf16ToFloat(FloatToBf16(p[k]));
    }
    for (int d = 0; d < shape.head_dim; ++d) {
      InOrder(bf16, rows.begin, rows.end, [&](int64_t k) { out.o[d] = std::fma(p[k], block.Value(k, d), out.o[d]); });
      out.o[d] += 0.0f;  // a sum that was flushed to -0 becomes +0
    }
    return out;
  }
};

}  // namespace

const AttentionKernels* PortableAttention() {
  static const Portable kernels;
  return &kernels;
}

}  // namespace rondo
