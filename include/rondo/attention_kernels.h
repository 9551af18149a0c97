// The attention seam: partial results of a run of canonical blocks, their merge, and the finish; called by
// LocalAttention and the ring, implemented in kernels/. Stateless; any thread may call; nothing here fails: the
// caller checks shapes (CHECK), the world's errors were caught where files and messages come in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rondo/canonical.h"
#include "rondo/compute.h"
#include "rondo/tensor_memory.h"

namespace rondo {

class ThreadPool;

// What happens to a visible score q.k * scale before the softmax, in this order, and the sinks that join it.
struct ScoreSpec {
  // 0: none; else s = softcap * tanh(s / softcap), from kMinSoftcap to kMaxSoftcap.
  float softcap = 0;
  const float* alibi_slopes = nullptr;  // [q_heads], finite, or null: s -= slope * |k - p|, distances below 2^31
  // [q_heads] or null: learned logits that take part in the softmax of every row and carry no value. Finish alone
  // reads them. NaN and numbers beyond the range of scores are clamped like scores; -inf is no sink.
  const float* sinks = nullptr;
};
inline constexpr float kMinSoftcap = 1e-6f;
inline constexpr float kMaxSoftcap = 1e6f;

struct AttentionShape {
  int32_t q_heads = 0;
  int32_t kv_heads = 0;  // divides q_heads; query head h reads KV head h / (q_heads / kv_heads)
  int32_t head_dim = 0;
  KvType kv_type = KvType::kF32;
  float scale = 0;  // multiplies q.k, usually 1/sqrt(head_dim)
  ScoreSpec score = {};
  int32_t leaf_level = 0;  // of the kernels that compute it: a partial starts empty every 2^leaf_level blocks
};

// Which keys k a query at position p may see. Positions are global. rondo/visible.h turns it into intervals.
struct MaskSpec {
  bool causal = true;  // k <= p
  int64_t window = 0;  // 0: none; else p - k < window and, when not causal, also k - p < window
  // Packed sequences: ascending positions at which they start, the first 0, the last the total (cu_seqlens); equal
  // neighbours are an empty sequence. A query sees keys of its own sequence only. Empty: one sequence. Caller-owned.
  absl::Span<const int64_t> sequence_starts = {};
};

// Query rows of consecutive global positions. Positions may be negative (more queries than keys, aligned at the end).
struct QueryRows {
  const float* q = nullptr;  // [count, q_heads, head_dim]
  int64_t first_position = 0;
  int64_t count = 0;
  RowKind kind = RowKind::kGiven;
};

// One canonical block of one layer. Rows past `tokens` are never read, and rows no query may see may hold NaN.
struct KvBlock {
  const std::byte* data = nullptr;  // K then V, each [kv_heads, kBlockTokens, head_dim] of kv_type; 64-byte aligned
  int64_t index = 0;                // holds positions index * kBlockTokens + [0, tokens)
  int32_t tokens = 0;               // 0..kBlockTokens; only the last block of a sequence is partly filled
};

constexpr size_t KvBlockBytes(const AttentionShape& s) {
  return size_t{2} * s.kv_heads * kBlockTokens * s.head_dim * ElementBytes(s.kv_type);
}
// Offset of V in a block.
constexpr size_t KvBlockValueOffset(const AttentionShape& s) { return KvBlockBytes(s) / 2; }

// The partial (m, l, o) of every query row over one node of the tree. A row that saw no key in it has l == 0: the
// identity of Merge; its m and o are then unspecified but finite (m = kEmptyMax, o = 0).
struct PartialNode {
  NodeId id;
  float* o = nullptr;  // [count, q_heads, head_dim], unnormalised
  float* m = nullptr;  // [count, q_heads], an integer: ceiling of the maximum of q.k * scale * log2(e)
  float* l = nullptr;  // [count, q_heads], sum of 2^(s - m)
};
inline constexpr float kEmptyMax = -1048576.0f;  // -2^20: below every score the definition admits

class AttentionKernels {
 public:
  virtual ~AttentionKernels() = default;
  virtual std::string_view name() const = 0;  // ref, portable, avx2, avx512

  // Of the family; shapes carry it. See canonical.h.
  virtual int32_t leaf_level() const { return 0; }

  // The same for drawn rows, whose nodes meet those of no other row: at most leaf_level(). Few rows want many leaves,
  // to be spread over a device; many rows want few, for each leaf of each row passes through memory.
  virtual int32_t drawn_leaf_level() const { return leaf_level(); }

  // INVALID_ARGUMENT naming the field for a shape these kernels have no code for: asked before anything else.
  virtual absl::Status Supports(const AttentionShape&) const { return absl::OkStatus(); }

  // Where keys, values and nodes are best kept. Blocks must lie there; all other arguments may, and may as well lie in
  // host memory.
  virtual TensorMemory& memory() const { return HostMemory(); }

  // Computes the nodes DyadicNodes({run.front().index, run.back().index + 1}, shape.leaf_level) into `nodes` (same ids,
  // same order, caller-owned storage). `run` is non-empty and its indices are consecutive; what it leaves out of a leaf
  // at its ends, no query sees. A few rows and many may take different code; for rows of one kind the bits are the
  // same.
  virtual void Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
                      const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const = 0;

  // left <- merge(left, right), row by row; right covers the blocks after left's. A side with l == 0 is the identity
  // and the other is kept bit for bit. Else m = max, l and o = fma(a, wa, b * wb) with w = 2^(own m - m).
  virtual void Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
                     ThreadPool& pool) const = 0;

  // out = o * (1 / l) + 0.0f, and lse = natural log of the sum of exponentials of scaled scores. Rows with l == 0
  // give out = 0 and lse = -inf. `lse` may be null. Sinks of the shape are merged here, last and from the right: a row
  // with l == 0 then gives out = 0 and lse = its sink.
  virtual void Finish(const AttentionShape& shape, int64_t count, const PartialNode& node,
                      float* out,  // [count, q_heads, head_dim]
                      float* lse,  // [count, q_heads], natural log
                      ThreadPool& pool) const = 0;
};

}  // namespace rondo
