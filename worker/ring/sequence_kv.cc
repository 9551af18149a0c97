#include "worker/ring/sequence_kv.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rondo {
namespace {

std::vector<BlockRange> Without(const std::vector<BlockRange>& ranges, const std::vector<BlockRange>& others) {
  std::vector<BlockRange> left;
  for (BlockRange range : ranges) {
    for (const BlockRange& other : others) {
      if (other.end <= range.begin || other.begin >= range.end) continue;
      if (other.begin > range.begin) left.push_back({range.begin, other.begin});
      range.begin = std::min(other.end, range.end);
    }
    if (!range.empty()) left.push_back(range);
  }
  return left;
}

}  // namespace

absl::StatusOr<SequenceKv::Slots> SequenceKv::Slots::Create(const AttentionShape& shape, int32_t layers,
                                                            std::vector<BlockRange> runs, TensorMemory& memory) {
  std::vector<int64_t> first_slots;
  int64_t slots = 0;
  for (const BlockRange& run : runs) {
    first_slots.push_back(slots);
    slots += run.size();
  }
  absl::StatusOr<KvArena> arena = KvArena::Create(shape, layers, slots, memory);
  if (!arena.ok()) return arena.status();
  return Slots{*std::move(arena), std::move(runs), std::move(first_slots)};
}

int64_t SequenceKv::Slots::Of(int64_t block) const {
  const auto after =
      std::upper_bound(runs.begin(), runs.end(), block, [](int64_t b, const BlockRange& run) { return b < run.begin; });
  if (after == runs.begin()) return -1;
  const size_t run = static_cast<size_t>(after - runs.begin()) - 1;
  return block < runs[run].end ? first_slots[run] + block - runs[run].begin : -1;
}

absl::StatusOr<SequenceKv> SequenceKv::Create(const AttentionShape& shape, int32_t layers, const ShardPlan& plan,
                                              int rank, int64_t max_sequence_tokens, TensorMemory& memory) {
  std::vector<BlockRange> owned = plan.OwnedBlocks(max_sequence_tokens, rank);
  std::vector<BlockRange> staged = Without(plan.ComputedBlocks(rank), owned);
  return Create(shape, layers, std::move(owned), std::move(staged), max_sequence_tokens, memory);
}

absl::StatusOr<SequenceKv> SequenceKv::Create(const AttentionShape& shape, int32_t layers,
                                              std::vector<BlockRange> owned, std::vector<BlockRange> staged,
                                              int64_t max_sequence_tokens, TensorMemory& memory) {
  absl::StatusOr<Slots> keep = Slots::Create(shape, layers, std::move(owned), memory);
  if (!keep.ok()) return keep.status();
  absl::StatusOr<Slots> stage = Slots::Create(shape, 1, std::move(staged), memory);
  if (!stage.ok()) return stage.status();
  SequenceKv kv(*std::move(keep), *std::move(stage));
  kv.layers_ = layers;
  kv.max_sequence_tokens_ = max_sequence_tokens;
  return kv;
}

size_t SequenceKv::KvBytes(const AttentionShape& shape, int32_t layers, const ShardPlan& plan, int rank,
                           int64_t max_sequence_tokens) {
  return static_cast<size_t>(layers) * plan.OwnedBlockCount(max_sequence_tokens, rank) * KvBlockBytes(shape);
}

void SequenceKv::Store(int32_t layer, absl::Span<const PositionRun> runs, const float* k, const float* v) {
  const int64_t row_size = int64_t{shape().kv_heads} * shape().head_dim;
  for (const PositionRun& run : runs) {
    RONDO_CHECK(run.begin >= 0 && run.end <= max_sequence_tokens_);
    for (int64_t begin = run.begin; begin < run.end;) {
      const int64_t block = BlockOf(begin);
      const int64_t end = std::min(run.end, (block + 1) * kBlockTokens);
      if (const int64_t slot = kept_.Of(block); slot >= 0) {
        kept_.arena.StoreRows(layer, slot, begin % kBlockTokens, end - begin, k, v);
      } else if (const int64_t aside = staged_.Of(block); aside >= 0) {
        staged_.arena.StoreRows(0, aside, begin % kBlockTokens, end - begin, k, v);
      }
      if (k != nullptr) k += (end - begin) * row_size;
      if (v != nullptr) v += (end - begin) * row_size;
      begin = end;
    }
  }
}

std::byte* SequenceKv::Block(int32_t layer, int64_t block) {
  if (const int64_t slot = kept_.Of(block); slot >= 0) return kept_.arena.Block(layer, slot);
  if (const int64_t slot = staged_.Of(block); slot >= 0) return staged_.arena.Block(0, slot);
  return nullptr;
}

void SequenceKv::DropStaged() {
  if (staged_bytes() > 0) staged_ = Slots::Create(shape(), 1, {}, HostMemory()).value();
}

}  // namespace rondo
