// What one attention job asks for, as a plain value: made from a client's message, checked by the coordinator, run by
// every rank.
#pragma once

#include <cstdint>
#include <vector>

#include "rondo/ring.h"

namespace rondo {

// What a job may ask for at most; Open refuses the rest.
inline constexpr int64_t kMaxAttentionTokens = (int64_t{1} << 31) - 1;  // positions fit an int32
inline constexpr int32_t kMaxAttentionHeads = 4096;                     // far above any model's
inline constexpr int32_t kMaxAttentionHeadDim = 256;                    // what the CPU kernels' tiles hold
// A scale is 1 / sqrt(head_dim) or near it. One that a float rounds to 0, or that makes every score huge, is a mistake.
inline constexpr float kMinAttentionScale = 1e-6f, kMaxAttentionScale = 1e6f;

struct AttentionJobSpec {
  int64_t q_tokens = 0;
  int64_t kv_tokens = 0;
  AttentionShape shape;  // `scale` as it is used: 1 / sqrt(head_dim) where the client gave none
  bool causal = true;
  int64_t window = 0;                    // 0: none
  float softcap = 0;                     // 0: none
  std::vector<float> sinks;              // empty, or [q_heads]
  std::vector<float> alibi_slopes;       // empty, or [q_heads]
  std::vector<int64_t> sequence_starts;  // empty: one sequence
  uint32_t ring_size = 0;                // 0: all ranks
  RingStrategy strategy = RingStrategy::kAuto;
  bool want_lse = false;

  // Points into this value, which must outlive it and stay as it is.
  RingProblem Problem() const {
    RingProblem p;
    p.shape = shape;
    p.shape.score.softcap = softcap;
    p.shape.score.alibi_slopes = alibi_slopes.empty() ? nullptr : alibi_slopes.data();
    p.mask.causal = causal;
    p.mask.window = window;
    p.mask.sequence_starts = sequence_starts;
    p.q_tokens = q_tokens;
    p.kv_tokens = kv_tokens;
    p.sinks = sinks.empty() ? nullptr : sinks.data();
    return p;
  }

  // Elements of a row of Q or O, and of K or V.
  int64_t QRow() const { return int64_t{shape.q_heads} * shape.head_dim; }
  int64_t KvRow() const { return int64_t{shape.kv_heads} * shape.head_dim; }
};

// Less than what such a job holds on all ranks together, in bytes: tensors alone. Saturates.
inline uint64_t LeastAttentionBytes(const AttentionJobSpec& spec) {
  const double rows = 8.0 * static_cast<double>(spec.q_tokens) * static_cast<double>(spec.QRow());
  const double keys = 2.0 * static_cast<double>(ElementBytes(spec.shape.kv_type)) *
                      static_cast<double>(spec.kv_tokens) * static_cast<double>(spec.KvRow());
  return rows + keys < 0x1p63 ? static_cast<uint64_t>(rows + keys) : uint64_t{1} << 63;
}

// What such a job holds on each of `ranks` ranks, in bytes: keys and values, queries, results, and the ring's buffers.
// The coordinator admits by it, ranks allocate by it.
inline std::vector<uint64_t> AttentionJobBytes(const AttentionJobSpec& spec, int ranks) {
  const RingProblem problem = spec.Problem();
  const RingShares shares = PlanShares(problem, ranks);
  const std::vector<RingBytes> ring = RingAttend::Bytes(problem, ranks, spec.strategy);
  std::vector<uint64_t> bytes(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const uint64_t rows = TotalRows(shares.q_rows[rank]);
    const uint64_t lse_row = spec.want_lse ? spec.shape.q_heads : 0;
    bytes[rank] = ring[rank].total() + rows * (2 * spec.QRow() + lse_row) * sizeof(float);
  }
  return bytes;
}

}  // namespace rondo
