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

void FinishStrip(RingContext& context, const Strip& strip, NodeForest& forest, float* out, float* lse, NodePool& pool) {
  const AttentionShape& shape = context.kv.shape();
  float* const o = out + strip.first_row * shape.q_heads * shape.head_dim;
  float* const l = lse == nullptr ? nullptr : lse + strip.first_row * shape.q_heads;
  forest.Finish(context.kernels, shape, o, l, pool, context.threads);
}

void SkipStrips(RingContext& context, absl::Span<const Strip> strips, absl::Span<NodeForest> forests, float* out,
                float* lse, NodePool& pool) {
  const AttentionShape& shape = context.kv.shape();
  const int64_t row_size = int64_t{shape.q_heads} * shape.head_dim;
  for (size_t i = 0; i < strips.size(); ++i) {
    forests[i].Discard(pool);
    std::fill_n(out + strips[i].first_row * row_size, strips[i].count * row_size, 0.0f);
    if (lse == nullptr) continue;
    std::fill_n(lse + strips[i].first_row * shape.q_heads, strips[i].count * shape.q_heads,
                -std::numeric_limits<float>::infinity());
  }
}

absl::Status EndLayer(RingContext& context, int32_t layer, int64_t position, bool skipped, bool stop) {
  if (context.ring_size == 1) return context.Cancelling() ? context.Cancelled() : absl::OkStatus();
  if (stop) return context.Cancelled();
  if (layer + 1 < context.kv.layers()) return absl::OkStatus();
  return AgreeToGoOn(context, layer, position, skipped);
}

}  // namespace rondo
