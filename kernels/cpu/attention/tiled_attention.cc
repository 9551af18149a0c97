#include "kernels/cpu/attention/tiled_attention.h"

#include <algorithm>

#include "base/aligned.h"
#include "base/check.h"
#include "base/fp_env.h"
#include "base/thread_pool.h"
#include "kernels/cpu/attention/attend_task.h"
#include "kernels/cpu/attention/factories.h"
#include "kernels/cpu/attention/lse.h"
#include "kernels/cpu/attention/score_settings.h"

namespace rondo::attention {
namespace {

// From so many rows on, queries in lanes win over keys in lanes: they reuse every key and value that often.
constexpr int64_t kManyRows = 8;

// Rows of (row, head) pairs a task of Merge or Finish takes: 64 of 128 floats are 32 KiB.
constexpr int64_t kPairsPerTask = 64;

// Slopes live as long as the call: each calling thread keeps them.
ScoreTransform TransformOf(const AttentionShape& shape) {
  ScoreTransform transform;
  const ScoreSpec& score = shape.score;
  const ScopedComputeFpEnv fp_env;
  if (score.softcap != 0) {
    RONDO_CHECK(score.softcap >= kMinSoftcap && score.softcap <= kMaxSoftcap);
    transform.cap = CapInLog2(score.softcap);
    transform.cap_rate = CapRate(score.softcap);
  }
  if (score.alibi_slopes != nullptr) {
    thread_local Scratch<float> scratch;
    float* slopes = scratch.Get(shape.q_heads);
    for (int32_t h = 0; h < shape.q_heads; ++h) slopes[h] = BiasSlope(score.alibi_slopes[h]);
    transform.slopes = slopes;
  }
  return transform;
}

}  // namespace

float AttendCall::factor() const { return static_cast<float>(shape.scale * kLog2E); }

int32_t AttendCall::Distance(int64_t position, const KvBlock& block) const {
  const int64_t distance = position - block.index * kBlockTokens;
  RONDO_CHECK(std::abs(distance) < INT32_MAX - kBlockTokens);
  return static_cast<int32_t>(distance);
}

void TiledAttention::Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
                            const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const {
  RONDO_CHECK(!run.empty());
  RONDO_CHECK(shape.head_dim >= 1 && shape.head_dim <= 256);
  RONDO_CHECK(shape.kv_heads >= 1 && shape.q_heads % shape.kv_heads == 0);
  if (queries.count == 0) return;
  const AttendCall call{ops_, shape, queries, run, mask, nodes, TransformOf(shape)};
  if (queries.count < kManyRows) {
    AttendFewRows(call, pool);
  } else {
    AttendManyRows(call, pool);
  }
}

void TiledAttention::Merge(const AttentionShape& shape, int64_t count, const PartialNode& left,
                           const PartialNode& right, ThreadPool& pool) const {
  const int64_t pairs = count * shape.q_heads;
  pool.Run((pairs + kPairsPerTask - 1) / kPairsPerTask, [&](int64_t task, int) {
    const int64_t i = task * kPairsPerTask, n = std::min(kPairsPerTask, pairs - i), o = i * shape.head_dim;
    ops_.merge_rows(n, shape.head_dim, left.o + o, left.m + i, left.l + i, right.o + o, right.m + i, right.l + i);
  });
}

void TiledAttention::Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
                            ThreadPool& pool) const {
  const int64_t pairs = count * shape.q_heads;
  pool.Run((pairs + kPairsPerTask - 1) / kPairsPerTask, [&](int64_t task, int) {
    const int64_t i = task * kPairsPerTask, n = std::min(kPairsPerTask, pairs - i), o = i * shape.head_dim;
    if (shape.score.sinks == nullptr) {
      ops_.finish_rows(n, shape.head_dim, node.o + o, node.l + i, nullptr, out + o);
      if (lse == nullptr) return;
      for (int64_t j = i; j < i + n; ++j) lse[j] = NaturalLse(node.m[j], node.l[j]);
      return;
    }
    float sinks[kPairsPerTask] = {}, m[kPairsPerTask] = {}, l[kPairsPerTask] = {}, weight[kPairsPerTask];
    for (int64_t j = 0; j < n; ++j) {
      sinks[j] = SinkInLog2(shape.score.sinks[(i + j) % shape.q_heads]);
      m[j] = node.m[i + j];
      l[j] = node.l[i + j];
    }
    ops_.merge_sinks(n, sinks, m, l, weight);
    ops_.finish_rows(n, shape.head_dim, node.o + o, l, weight, out + o);
    if (lse == nullptr) return;
    for (int64_t j = 0; j < n; ++j) {
      const bool alone = node.l[i + j] == 0;
      lse[i + j] = alone ? shape.score.sinks[(i + j) % shape.q_heads] : NaturalLse(m[j], l[j]);
    }
  });
}

}  // namespace rondo::attention

namespace rondo {

const AttentionKernels* Avx2Attention() {
  static const attention::TiledAttention kernels("avx2", attention::Avx2Ops());
  return &kernels;
}

const AttentionKernels* Avx512Attention() {
  static const attention::TiledAttention kernels("avx512", attention::Avx512Ops());
  return &kernels;
}

const AttentionKernels* WideAttention() {
  static const attention::TiledAttention kernels("wide", attention::WideOps());
  return &kernels;
}

}  // namespace rondo
