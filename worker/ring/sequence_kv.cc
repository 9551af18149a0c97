#include "worker/ring/sequence_kv.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rondo {

absl::StatusOr<SequenceKv> SequenceKv::Create(const AttentionShape& shape, int32_t layers, const ShardPlan& plan,
                                              int rank, int64_t max_sequence_tokens) {
  return Create(shape, layers, plan.OwnedBlocks(max_sequence_tokens, rank), max_sequence_tokens);
}

absl::StatusOr<SequenceKv> SequenceKv::Create(const AttentionShape& shape, int32_t layers,
                                              std::vector<BlockRange> owned, int64_t max_sequence_tokens) {
  int64_t slots = 0;
  for (const BlockRange& run : owned) slots += run.size();
  absl::StatusOr<KvArena> arena = KvArena::Create(shape, layers, slots);
  if (!arena.ok()) return arena.status();
  SequenceKv kv(*std::move(arena));
  kv.layers_ = layers;
  kv.max_sequence_tokens_ = max_sequence_tokens;
  kv.owned_ = std::move(owned);
  int64_t slot = 0;
  for (const BlockRange& run : kv.owned_) {
    kv.first_slots_.push_back(slot);
    slot += run.size();
  }
  return kv;
}

size_t SequenceKv::KvBytes(const AttentionShape& shape, int32_t layers, const ShardPlan& plan, int rank,
                           int64_t max_sequence_tokens) {
  return static_cast<size_t>(layers) * plan.OwnedBlockCount(max_sequence_tokens, rank) * KvBlockBytes(shape);
}

int64_t SequenceKv::SlotOf(int64_t block) const {
  const auto after = std::upper_bound(owned_.begin(), owned_.end(), block,
                                      [](int64_t b, const BlockRange& run) { return b < run.begin; });
  if (after == owned_.begin()) return -1;
  const size_t run = static_cast<size_t>(after - owned_.begin()) - 1;
  return block < owned_[run].end ? first_slots_[run] + block - owned_[run].begin : -1;
}

void SequenceKv::Store(int32_t layer, absl::Span<const PositionRun> runs, const float* k, const float* v) {
  const int64_t row_size = int64_t{shape().kv_heads} * shape().head_dim;
  for (const PositionRun& run : runs) {
    RONDO_CHECK(run.begin >= 0 && run.end <= max_sequence_tokens_);
    for (int64_t begin = run.begin; begin < run.end;) {
      const int64_t end = std::min(run.end, (BlockOf(begin) + 1) * kBlockTokens);
      const int64_t slot = SlotOf(BlockOf(begin));
      if (slot >= 0) arena_.StoreRows(layer, slot, begin % kBlockTokens, end - begin, k, v);
      if (k != nullptr) k += (end - begin) * row_size;
      if (v != nullptr) v += (end - begin) * row_size;
      begin = end;
    }
  }
}

absl::Span<const std::byte> SequenceKv::Owned(int32_t layer, int64_t sequence_tokens) const {
  const int64_t blocks = BlocksFor(sequence_tokens);
  int64_t slots = 0;
  for (const BlockRange& run : owned_) slots += std::clamp<int64_t>(blocks - run.begin, 0, run.size());
  if (slots == 0) return {};
  return {arena_.Block(layer, 0), static_cast<size_t>(slots) * arena_.block_bytes()};
}

void ViewBlocks(absl::Span<const BlockRange> owned, int64_t sequence_tokens, const std::byte* bytes, size_t block_bytes,
                std::vector<std::vector<KvBlock>>& runs) {
  runs.resize(owned.size());
  for (size_t i = 0; i < owned.size(); ++i) {
    runs[i].clear();
    for (int64_t block = owned[i].begin; block < owned[i].end; ++block) {
      const int64_t tokens = std::clamp<int64_t>(sequence_tokens - block * kBlockTokens, 0, kBlockTokens);
      runs[i].push_back({bytes, block, static_cast<int32_t>(tokens)});
      bytes += block_bytes;
    }
  }
}

}  // namespace rondo
