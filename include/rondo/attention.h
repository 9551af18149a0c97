// What the decoder asks of attention: rows of this rank in, attended rows out. LocalAttention (one rank) and
// RingAttention implement it; the decoder never learns of a rank.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace rondo {

// Consecutive global positions [begin, end).
struct PositionRun {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

inline int64_t TotalRows(absl::Span<const PositionRun> runs) {
  int64_t rows = 0;
  for (const PositionRun& run : runs) rows += run.size();
  return rows;
}

class Attention {
 public:
  virtual ~Attention() = default;

  // Keeps the new keys and values of layer `layer` and computes causal attention of the new queries over everything
  // seen so far. Rows are the runs' positions in order; every rank of a group calls once a layer, layers ascending,
  // also with no rows. CANCELLED when the job was cancelled meanwhile; UNAVAILABLE when a peer is gone.
  virtual absl::Status Run(int32_t layer, absl::Span<const PositionRun> runs,
                           const float* q,  // [rows, q_heads, head_dim], rotated
                           const float* k,  // [rows, kv_heads, head_dim], rotated
                           const float* v,  // [rows, kv_heads, head_dim]
                           float* out       // [rows, q_heads, head_dim]
                           ) = 0;
};

}  // namespace rondo
