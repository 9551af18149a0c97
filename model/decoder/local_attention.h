// Attention of a group of one rank: the same canonical blocks and merge tree as the ring, over one KvArena; used by
// the decoder's tests, the benchmarks and tools that need no cluster.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/aligned.h"
#include "model/kv/kv_arena.h"
#include "rondo/attention.h"
#include "rondo/attention_kernels.h"

namespace rondo {

class ThreadPool;

// One thread at a time. Positions of a layer arrive in order from 0 without gaps. Allocates only when a call has more
// query rows in a strip or more tree nodes than any before it.
class LocalAttention : public Attention {
 public:
  // Kernels and pool must outlive it. The arena's slot b holds block b; its slots bound the sequence.
  LocalAttention(const AttentionKernels& kernels, KvArena arena, ThreadPool& pool);

  // RESOURCE_EXHAUSTED where the arena has no room for the new rows; nothing is changed then.
  absl::Status Run(int32_t layer, absl::Span<const PositionRun> runs, const float* q, const float* k, const float* v,
                   float* out) override;

  // Forgets every token.
  void Clear();

 private:
  void Store(int32_t layer, PositionRun run, const float* k, const float* v);
  void AttendStrip(int32_t layer, int64_t tokens, const QueryRows& queries, float* out);
  absl::Span<PartialNode> PlaceNodes(int64_t blocks, int64_t rows);

  const AttentionKernels& kernels_;
  KvArena arena_;
  ThreadPool& pool_;
  std::vector<int64_t> tokens_;  // by layer, kept so far
  std::vector<KvBlock> blocks_;
  std::vector<PartialNode> nodes_;
  std::vector<NodeId> node_ids_;  // of the tree over placed_blocks_
  int64_t placed_blocks_ = 0;
  Scratch<float> storage_;
};

}  // namespace rondo
