#include "worker/ring/end_layer.h"

#include <algorithm>
#include <limits>

#include "worker/ring/agreement.h"

namespace rondo {

void ResetForests(absl::Span<const Strip> strips, std::vector<NodeForest>& forests, NodePool& pool) {
  for (NodeForest& forest : forests) forest.Discard(pool);
  forests.resize(strips.size());
  for (size_t i = 0; i < strips.size(); ++i) forests[i].Reset(strips[i].count);
}

// Each rank's blocks give a strip at most its own nodes, and a forest never holds more than it was given.
size_t ForestBytes(const AttentionShape& shape, const RingLayout& layout, int rank) {
  size_t nodes = 0;
  for (const Strip& strip : layout.strips[rank]) {
    for (const std::vector<BlockRange>& blocks : layout.blocks) {
      for (const BlockRange& run : blocks) {
        const BlockRange seen = Intersect(strip.visible, run);
        if (!seen.empty()) nodes += DyadicNodes(seen).size();
      }
    }
  }
  return nodes * NodePool(shape, kBlockTokens).slab_bytes();
}

void FinishStrips(RingContext& context, absl::Span<const Strip> strips, absl::Span<NodeForest> forests, bool skipped,
                  float* out, float* lse, NodePool& pool) {
  ScopedTimer timer(context.stats.compute);
  const AttentionShape& shape = context.kv.shape();
  const int64_t row_size = int64_t{shape.q_heads} * shape.head_dim;
  for (size_t i = 0; i < strips.size(); ++i) {
    float* const o = out + strips[i].first_row * row_size;
    float* const l = lse == nullptr ? nullptr : lse + strips[i].first_row * shape.q_heads;
    if (!skipped) {
      forests[i].Finish(context.kernels, shape, o, l, pool, context.threads);
      continue;
    }
    forests[i].Discard(pool);
    std::fill_n(o, strips[i].count * row_size, 0.0f);
    if (l != nullptr) std::fill_n(l, strips[i].count * shape.q_heads, -std::numeric_limits<float>::infinity());
  }
}

absl::Status EndLayer(RingContext& context, int32_t layer, int64_t position, bool skipped, bool stop) {
  if (context.ring_size == 1) return context.Cancelling() ? context.Cancelled() : absl::OkStatus();
  if (stop) return context.Cancelled();
  if (layer + 1 < context.kv.layers()) return absl::OkStatus();
  return AgreeToGoOn(context, layer, position, skipped);
}

}  // namespace rondo
