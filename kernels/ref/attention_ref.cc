#include "kernels/ref/attention_ref.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bf16.h"
#include "base/thread_pool.h"
#include "kernels/ref/factories.h"

namespace rondo {
namespace {

double Element(const AttentionShape& shape, const std::byte* rows, int32_t kv_head, int64_t row, int32_t d) {
  const size_t i = (static_cast<size_t>(kv_head) * kBlockTokens + row) * shape.head_dim + d;
  if (shape.kv_type == KvType::kBf16) return Bf16ToFloat(reinterpret_cast<const uint16_t*>(rows)[i]);
  return reinterpret_cast<const float*>(rows)[i];
}

bool SameSequence(absl::Span<const int64_t> starts, int64_t position, int64_t key) {
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    if (position >= starts[i] && position < starts[i + 1]) return key >= starts[i] && key < starts[i + 1];
  }
  return false;
}

// The score of a visible key, in units of log2.
double Transform(const ScoreSpec& score, int32_t head, int64_t distance, double s) {
  if (score.softcap != 0) s = score.softcap * std::tanh(s / score.softcap);
  if (score.alibi_slopes != nullptr) s -= score.alibi_slopes[head] * static_cast<double>(std::abs(distance));
  return s * 1.4426950408889634;
}

// Calls fn(block, row in block) for every visible key of blocks [begin, end), ascending.
template <typename Fn>
void ForVisible(absl::Span<const KvBlock> run, const MaskSpec& mask, int64_t position, NodeId node, Fn&& fn) {
  for (int64_t b = node.begin(); b < node.end(); ++b) {
    const KvBlock& block = run[b - run.front().index];
    for (int64_t i = 0; i < block.tokens; ++i) {
      const int64_t key = b * kBlockTokens + i;
      if (mask.causal && key > position) continue;
      if (mask.window > 0 && std::abs(position - key) >= mask.window) continue;
      if (!mask.sequence_starts.empty() && !SameSequence(mask.sequence_starts, position, key)) continue;
      fn(block, i);
    }
  }
}

void AttendRow(const AttentionShape& shape, const float* q, int32_t head, int64_t position,
               absl::Span<const KvBlock> run, const MaskSpec& mask, const PartialNode& node, int64_t pair) {
  const int32_t kv_head = head / (shape.q_heads / shape.kv_heads);
  std::vector<double> scores;
  double max = -std::numeric_limits<double>::infinity();
  ForVisible(run, mask, position, node.id, [&](const KvBlock& block, int64_t i) {
    double s = 0;
    for (int32_t d = 0; d < shape.head_dim; ++d) s += double{q[d]} * Element(shape, block.data, kv_head, i, d);
    scores.push_back(Transform(shape.score, head, position - (block.index * kBlockTokens + i), s * shape.scale));
    max = std::max(max, scores.back());
  });
  float* o = node.o + pair * shape.head_dim;
  if (scores.empty()) {
    node.m[pair] = kEmptyMax;
    node.l[pair] = 0;
    std::fill_n(o, shape.head_dim, 0.0f);
    return;
  }
  const double m = std::ceil(std::clamp(max, kEmptyMax + 1.0, -double{kEmptyMax}));
  double l = 0;
  std::vector<double> sum(shape.head_dim);
  size_t next = 0;
  ForVisible(run, mask, position, node.id, [&](const KvBlock& block, int64_t i) {
    const double p = std::exp2(scores[next++] - m);
    l += p;
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      sum[d] += p * Element(shape, block.data + KvBlockValueOffset(shape), kv_head, i, d);
    }
  });
  node.m[pair] = static_cast<float>(m);
  node.l[pair] = static_cast<float>(l);
  for (int32_t d = 0; d < shape.head_dim; ++d) o[d] = static_cast<float>(sum[d]);
}

}  // namespace

void AttentionRef::Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
                          const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const {
  pool.Run(queries.count * shape.q_heads, [&](int64_t pair, int) {
    for (const PartialNode& node : nodes) {
      AttendRow(shape, queries.q + pair * shape.head_dim, static_cast<int32_t>(pair % shape.q_heads),
                queries.first_position + pair / shape.q_heads, run, mask, node, pair);
    }
  });
}

void AttentionRef::Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
                         ThreadPool& pool) const {
  pool.Run(count * shape.q_heads, [&](int64_t i, int) {
    float *a = left.o + i * shape.head_dim, *b = right.o + i * shape.head_dim;
    if (right.l[i] == 0) return;
    if (left.l[i] == 0) {
      left.m[i] = right.m[i];
      left.l[i] = right.l[i];
      std::copy_n(b, shape.head_dim, a);
      return;
    }
    const double m = std::max(left.m[i], right.m[i]);
    const double wa = std::exp2(left.m[i] - m), wb = std::exp2(right.m[i] - m);
    left.m[i] = static_cast<float>(m);
    left.l[i] = static_cast<float>(left.l[i] * wa + right.l[i] * wb);
    for (int32_t d = 0; d < shape.head_dim; ++d) a[d] = static_cast<float>(a[d] * wa + b[d] * wb);
  });
}

void AttentionRef::Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
                          ThreadPool& pool) const {
  pool.Run(count * shape.q_heads, [&](int64_t i, int) {
    const double l = node.l[i];
    double weight = l == 0 ? 0 : 1 / l, log = (node.m[i] + std::log2(l)) * 0.6931471805599453;
    if (shape.score.sinks != nullptr) {
      const double sink = shape.score.sinks[i % shape.q_heads];
      const double with = l == 0 ? sink : std::max(log, sink) + std::log1p(std::exp(-std::abs(log - sink)));
      weight = l == 0 ? 0 : weight * std::exp(log - with);
      log = with;
    }
    for (int64_t j = i * shape.head_dim; j < (i + 1) * shape.head_dim; ++j) {
      out[j] = static_cast<float>(node.o[j] * weight);
    }
    if (lse != nullptr) lse[i] = static_cast<float>(log);
  });
}

const AttentionKernels* RefAttention() {
  static const AttentionRef kernels;
  return &kernels;
}

}  // namespace rondo
