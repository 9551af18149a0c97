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

// Owned blocks of [0, BlocksFor(max_sequence_tokens)) sit in slots in ascending order: a run of them is one stretch of
// memory in each layer. One thread at a time.
class SequenceKv {
 public:
  // `max_sequence_tokens`: prompt and all tokens that may be generated. RESOURCE_EXHAUSTED as KvArena::Create.
  static absl::StatusOr<SequenceKv> Create(const AttentionShape& shape, int32_t layers, const ShardPlan& plan, int rank,
                                           int64_t max_sequence_tokens, TensorMemory& memory = HostMemory());
  // The same for blocks that were dealt otherwise, both in ascending runs: to keep, and to set aside for others.
  static absl::StatusOr<SequenceKv> Create(const AttentionShape& shape, int32_t layers, std::vector<BlockRange> owned,
                                           std::vector<BlockRange> staged, int64_t max_sequence_tokens,
                                           TensorMemory& memory = HostMemory());

  // What Create will reserve, for admission: linear in the rank's own tokens.
  static size_t KvBytes(const AttentionShape& shape, int32_t layers, const ShardPlan& plan, int rank,
                        int64_t max_sequence_tokens);

  const AttentionShape& shape() const { return kept_.arena.shape(); }
  int32_t layers() const { return layers_; }
  int64_t max_sequence_tokens() const { return max_sequence_tokens_; }
  size_t reserved_bytes() const { return kept_.arena.reserved_bytes(); }

  // Keeps the rows of `runs` that lie in owned blocks; those in blocks this rank computes for another are set aside
  // until the next layer, the others are skipped. Rows are the runs' positions in order: k and v are [TotalRows(runs),
  // kv_heads, head_dim]; one of them may be null and is then kept another time.
  void Store(int32_t layer, absl::Span<const PositionRun> runs, const float* k, const float* v);

  // An owned block, or one that was set aside; nullptr: neither.
  std::byte* Block(int32_t layer, int64_t block);

  // Beside the KV: what this rank sets aside for others in one layer.
  size_t staged_bytes() const { return staged_.arena.reserved_bytes(); }
  void DropStaged();  // once the prompt is done

 private:
  // Blocks of `runs` in the slots of an arena, one after the other.
  struct Slots {
    static absl::StatusOr<Slots> Create(const AttentionShape& shape, int32_t layers, std::vector<BlockRange> runs,
                                        TensorMemory& memory);
    int64_t Of(int64_t block) const;  // -1: not here
    KvArena arena;
    std::vector<BlockRange> runs;      // ascending
    std::vector<int64_t> first_slots;  // of each run
  };
  SequenceKv(Slots kept, Slots staged) : kept_(std::move(kept)), staged_(std::move(staged)) {}

  Slots kept_;
  Slots staged_;  // one layer
  int32_t layers_ = 0;
  int64_t max_sequence_tokens_ = 0;
};

}  // namespace rondo
