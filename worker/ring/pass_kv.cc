#include "worker/ring/pass_kv.h"

#include <algorithm>

#include "base/check.h"
#include "worker/ring/end_layer.h"
#include "worker/ring/node_plan.h"

namespace rondo {
namespace {

int Origin(int rank, int step, int ranks) { return (rank + ranks - step) % ranks; }

// The ring step in which a strip of `rank` sees its last block; 0 if it sees none.
int LastStep(const RingLayout& layout, int rank, const Strip& strip) {
  int step = layout.world() - 1;
  while (step > 0 && !Overlaps(layout.blocks[Origin(rank, step, layout.world())], strip.visible)) --step;
  return step;
}

// The most that is kept at once: a strip's nodes from its first step to its last, and those that come to them.
size_t MostNodes(const RingLayout& layout, int rank, int leaf_level) {
  const std::vector<Strip>& strips = layout.strips[rank];
  std::vector<int> last_steps;
  for (const Strip& strip : strips) last_steps.push_back(LastStep(layout, rank, strip));
  std::vector<NodeCount> kept(strips.size());
  size_t now = 0, most = 0;
  for (int step = 0; step < layout.world(); ++step) {
    for (size_t i = 0; i < strips.size(); ++i) {
      now -= kept[i].size();
      for (const BlockRange& run : layout.blocks[Origin(rank, step, layout.world())]) {
        const BlockRange seen = Intersect(strips[i].visible, run);
        if (seen.empty()) continue;
        const std::vector<NodeId> nodes = DyadicNodes(seen, leaf_level);
        most = std::max(most, now + kept[i].size() + nodes.size());
        for (const NodeId id : nodes) kept[i].Insert(id);
      }
      if (step == last_steps[i]) kept[i] = {};
      now += kept[i].size();
    }
  }
  return most;
}

}  // namespace

PassKv::PassKv(RingContext& context)
    : context_(context),
      ring_(context, context.kernels.memory()),
      pool_(context.kv.shape(), StripTokens(context.kv.shape().leaf_level), context.kernels.memory()) {}

std::vector<std::vector<Circulation::Unit>> PassKv::Units(const AttentionShape& shape, const RingLayout& layout) {
  const int ranks = layout.world();
  std::vector<std::vector<BlockRange>> needed;
  for (int rank = 0; rank < ranks; ++rank) needed.push_back(NeededBlocks(layout, rank));
  std::vector<std::vector<Circulation::Unit>> units(ranks);
  for (int origin = 0; origin < ranks; ++origin) {
    int64_t previous = -2;
    bool previous_kept = false;
    for (const BlockRange& run : layout.blocks[origin]) {
      for (int64_t block = run.begin; block < run.end; ++block) {
        int reach = ranks - 1;
        while (reach > 0 && !Contains(needed[(origin + reach) % ranks], block)) --reach;
        // Kept and set-aside blocks lie in two places, kept ones with gaps for those that are yet to come.
        const bool kept = Contains(layout.kept[origin], block);
        const bool apart =
            kept != previous_kept || (kept && block != previous + 1 && layout.kept[origin] != layout.blocks[origin]);
        units[origin].push_back({KvBlockBytes(shape), reach, apart});
        previous = block;
        previous_kept = kept;
      }
    }
  }
  return units;
}

std::vector<RingBuffers> PassKv::Buffers(const AttentionShape& shape, const RingLayout& layout) {
  const std::vector<std::vector<Circulation::Unit>> units = Units(shape, layout);
  std::vector<RingBuffers> buffers;
  for (int rank = 0; rank < layout.world(); ++rank) {
    buffers.push_back(
        {2 * Circulation::BufferBytes(units, rank),
         MostNodes(layout, rank, shape.leaf_level) * NodePool::SlabBytes(shape, StripTokens(shape.leaf_level))});
  }
  return buffers;
}

void PassKv::Begin(const RingLayout& layout, int64_t position) {
  RONDO_CHECK(layout.world() == context_.ring_size);
  position_ = position;
  kv_tokens_ = layout.kv_tokens;
  ring_.Plan(RingHeader::kBlocks, Units(context_.kv.shape(), layout), position);
  strips_ = layout.strips[context_.rank()];
  ResetForests(strips_, forests_, pool_);
  last_steps_.clear();
  for (const Strip& strip : strips_) last_steps_.push_back(LastStep(layout, context_.rank(), strip));
  block_ids_.assign(layout.world(), {});
  for (int rank = 0; rank < layout.world(); ++rank) {
    for (const BlockRange& run : layout.blocks[rank]) {
      for (int64_t block = run.begin; block < run.end; ++block) block_ids_[rank].push_back(block);
    }
  }
  kept_ = layout.kept[context_.rank()];
}

absl::Status PassKv::Run(int32_t layer, const float* q, float* out, float* lse) {
  skipped_ = false;
  own_.clear();
  for (const int64_t block : block_ids_[context_.rank()]) own_.push_back(context_.kv.Block(layer, block));
  ring_.Begin(layer, own_);
  for (;;) {
    StepRecorder recorder(context_);
    if (!ring_.last()) {
      if (absl::Status posted = ring_.Post(); !posted.ok()) return posted;
    }
    Attend(layer, q, out, lse);
    if (ring_.last()) break;
    if (absl::Status received = ring_.Receive(); !received.ok()) return received;
  }
  context_.stats.skipped_steps += ring_.skipped_hops();
  if (skipped_) SkipStrips(context_, strips_, absl::MakeSpan(forests_), out, lse, pool_);
  return EndLayer(context_, layer, position_, skipped_, ring_.stop());
}

// A strip is finished as soon as it has seen its last block, so that nodes of few strips are kept: on one rank, of one.
void PassKv::Attend(int32_t layer, const float* q, float* out, float* lse) {
  ScopedTimer timer(context_.stats.compute);
  const int64_t row_size = int64_t{context_.kv.shape().q_heads} * context_.kv.shape().head_dim;
  skipped_ = skipped_ || ring_.skipped();
  if (skipped_) return;
  ViewHeld();
  if (ring_.step() > 0) KeepHeld(layer);
  for (size_t i = 0; i < strips_.size() && !skipped_; ++i) {
    skipped_ = context_.Cancelling();
    if (skipped_) return;
    AttendStrip(strips_[i], forests_[i], q + strips_[i].first_row * row_size);
    if (ring_.step() == last_steps_[i]) FinishStrip(context_, strips_[i], forests_[i], out, lse, pool_);
    context_.Progress(ring_.step(), i + 1, strips_.size());
  }
}

// Runs of consecutive blocks among those held.
void PassKv::ViewHeld() {
  const absl::Span<const int32_t> units = ring_.units();
  const std::vector<int64_t>& ids = block_ids_[ring_.origin()];
  block_run_count_ = 0;
  int64_t previous = -2;
  for (size_t i = 0; i < units.size(); ++i) {
    const int64_t block = ids[units[i]];
    if (block != previous + 1) {
      if (block_run_count_ == block_runs_.size()) block_runs_.emplace_back();
      block_runs_[block_run_count_++].clear();
    }
    const int64_t tokens = std::min(kBlockTokens, kv_tokens_ - block * kBlockTokens);
    block_runs_[block_run_count_ - 1].push_back({ring_.data(i), block, static_cast<int32_t>(tokens)});
    previous = block;
  }
}

// Blocks that another rank computed and this one keeps.
void PassKv::KeepHeld(int32_t layer) {
  for (size_t run = 0; run < block_run_count_; ++run) {
    for (const KvBlock& block : block_runs_[run]) {
      if (!Contains(kept_, block.index)) continue;
      context_.kernels.memory().Copy(context_.kv.Block(layer, block.index), block.data,
                                     KvBlockBytes(context_.kv.shape()));
    }
  }
}

void PassKv::AttendStrip(const Strip& strip, NodeForest& forest, const float* q) {
  const AttentionShape& shape = context_.kv.shape();
  for (const std::vector<KvBlock>& run : absl::MakeConstSpan(block_runs_).subspan(0, block_run_count_)) {
    const BlockRange seen = Intersect(strip.visible, {run.front().index, run.back().index + 1});
    if (seen.empty()) continue;
    nodes_.clear();
    for (const NodeId id : DyadicNodes(seen, shape.leaf_level)) nodes_.push_back(pool_.Acquire(id));
    context_.kernels.Attend(shape, QueryRows{q, strip.first_position, strip.count, RowKind::kGiven},
                            absl::MakeConstSpan(run).subspan(seen.begin - run.front().index, seen.size()),
                            context_.mask, nodes_, context_.threads);
    for (const PartialNode& node : nodes_) {
      forest.Insert(node, context_.kernels, shape, pool_, context_.threads);
    }
  }
}

}  // namespace rondo
