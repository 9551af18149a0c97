#include "worker/ring/own_nodes.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/fold_nodes.h"

namespace rondo {

void OwnNodeAttender::View(absl::Span<const BlockRange> owned, int32_t layer, int64_t kv_tokens) {
  runs_.resize(owned.size());
  for (size_t i = 0; i < owned.size(); ++i) {
    runs_[i].clear();
    for (int64_t block = owned[i].begin; block < owned[i].end; ++block) {
      const int64_t tokens = std::min(kBlockTokens, kv_tokens - block * kBlockTokens);
      runs_[i].push_back({context_.kv.Block(layer, block), block, static_cast<int32_t>(tokens)});
    }
  }
}

// The first part of a target is computed where the target lies, and a fold leaves its result in its first node.
void OwnNodeAttender::Attend(const Strip& strip, const float* q, absl::Span<const PartialNode> targets,
                             ThreadPool& merge_threads) {
  size_t target = 0;
  for (const std::vector<KvBlock>& run : runs_) {
    if (run.empty()) continue;
    const BlockRange seen = Intersect(strip.visible, {run.front().index, run.back().index + 1});
    if (seen.empty()) continue;
    parts_.clear();
    size_t next = target;
    for (const NodeId id : DyadicNodes(seen, shape_.leaf_level)) {
      if (next < targets.size() && id.begin() >= targets[next].id.begin()) {
        parts_.push_back(targets[next++]);
        parts_.back().id = id;
      } else {
        parts_.push_back(pool_.Acquire(id));
      }
      RONDO_CHECK(next > target && id.end() <= targets[next - 1].id.end());
    }
    context_.kernels.Attend(shape_, QueryRows{q, strip.first_position, strip.count, kind_},
                            absl::MakeConstSpan(run).subspan(seen.begin - run.front().index, seen.size()),
                            context_.mask, parts_, context_.threads);
    for (size_t part = 0; part < parts_.size(); ++target) {
      fold_.clear();
      for (; part < parts_.size() && parts_[part].id.begin() < targets[target].id.end(); ++part) {
        fold_.push_back(parts_[part]);
        if (fold_.size() > 1) pool_.Release(parts_[part]);
      }
      FoldNodes(context_.kernels, shape_, strip.count, absl::MakeSpan(fold_), merge_threads);
    }
    RONDO_CHECK(target == next);
  }
  RONDO_CHECK(target == targets.size());
}

}  // namespace rondo
