// The keys and values one rank keeps of one sequence: its own blocks under a shard plan, all layers; written by the
// ring as rows are computed, read by it as runs of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/kv/kv_arena.h"
#include "rondo/attention.h"
#include "rondo/attention_kernels.h"
#include "rondo/plan.h"

namespace rondo {

// Owned blocks of [0, BlocksFor(max_sequence_tokens)) sit in slots in ascending order, so that everything the rank
// owns of any prefix of the sequence is one stretch of memory in each layer. One thread at a time.
class SequenceKv {
 public:
  // `max_sequence_tokens`: prompt and all tokens that may be generated. RESOURCE_EXHAUSTED as KvArena::Create.
  static absl::StatusOr<SequenceKv> Create(const AttentionShape& shape, int32_t layers, const ShardPlan& plan, int rank,
                                           int64_t max_sequence_tokens);
  // The same for blocks that were dealt otherwise: `owned` are maximal ascending runs.
  static absl::StatusOr<SequenceKv> Create(const AttentionShape& shape, int32_t layers, std::vector<BlockRange> owned,
                                           int64_t max_sequence_tokens);

  // What Create will reserve, for admission: linear in the rank's own tokens.
  static size_t KvBytes(const AttentionShape& shape, int32_t layers, const ShardPlan& plan, int rank,
                        int64_t max_sequence_tokens);

  const AttentionShape& shape() const { return arena_.shape(); }
  int32_t layers() const { return layers_; }
  int64_t max_sequence_tokens() const { return max_sequence_tokens_; }
  size_t reserved_bytes() const { return arena_.reserved_bytes(); }

  // Keeps the rows of `runs` that lie in owned blocks; the others are skipped. Rows are the runs' positions in order:
  // k and v are [TotalRows(runs), kv_heads, head_dim]; one of them may be null and is then kept another time.
  void Store(int32_t layer, absl::Span<const PositionRun> runs, const float* k, const float* v);

  // All owned blocks of the first `sequence_tokens` positions of one layer, one block after the other.
  absl::Span<const std::byte> Owned(int32_t layer, int64_t sequence_tokens) const;

 private:
  explicit SequenceKv(KvArena arena) : arena_(std::move(arena)) {}
  int64_t SlotOf(int64_t block) const;  // -1: another rank's

  KvArena arena_;
  int32_t layers_ = 0;
  int64_t max_sequence_tokens_ = 0;
  std::vector<BlockRange> owned_;     // ascending
  std::vector<int64_t> first_slots_;  // of each owned run
};

// Names the blocks in `bytes`, which holds the blocks of `owned` one after the other: element i is run i, its last
// block filled as far as a sequence of `sequence_tokens` fills it.
void ViewBlocks(absl::Span<const BlockRange> owned, int64_t sequence_tokens, const std::byte* bytes, size_t block_bytes,
                std::vector<std::vector<KvBlock>>& runs);

}  // namespace rondo
