#include "worker/ring/ring_attention.h"

#include <algorithm>

#include "base/check.h"
#include "worker/ring/layout.h"
#include "worker/ring/select.h"

namespace rondo {

RingAttention::RingAttention(const AttentionKernels& kernels, Transport& transport, ThreadPool& threads, SequenceKv& kv,
                             const ShardPlan& plan, int ring_size, const RingOptions& options,
                             const std::atomic<bool>& cancelled)
    : plan_(plan),
      context_{kernels, transport, threads, kv, MaskSpec{}, ring_size, options, &cancelled},
      pass_kv_(context_),
      pass_q_(context_),
      decode_(context_, plan) {
  pass_kv_.Reserve(BufferBytes(kv.shape(), plan) / 2);
  RONDO_CHECK(plan.world() == ring_size);
  RONDO_CHECK(ring_size == 1 || (transport.rank() < ring_size && ring_size <= transport.world_size()));
}

void RingAttention::BeginPrefill(int64_t chunk) {
  prefill_ = true;
  const RingLayout layout = ChunkLayout(context_.mask, plan_, chunk);
  const int64_t position = plan_.Chunk(chunk).begin;
  choice_ = ChooseFor(context_.kv.shape(), context_.mask, layout, context_.options.strategy, context_.options.rates);
  if (choice_.strategy == RingStrategy::kPassQ) {
    pass_q_.Begin(layout, position);
  } else {
    pass_kv_.Begin(layout, position);
  }
}

void RingAttention::BeginDecode(int64_t position) {
  context_.kv.DropStaged();
  prefill_ = false;
  decode_.Begin(position);
}

absl::Status RingAttention::Run(int32_t layer, absl::Span<const PositionRun> runs, const float* q, const float* k,
                                const float* v, float* out) {
  if (!prefill_) return decode_.Run(layer, runs, q, k, v, out);
  context_.kv.Store(layer, runs, k, v);
  if (choice_.strategy == RingStrategy::kPassQ) return pass_q_.Run(layer, q, out, nullptr);
  return pass_kv_.Run(layer, q, out, nullptr);
}

// In one step of a chunk a rank receives at most what one rank has, computed or kept.
size_t RingAttention::BufferBytes(const AttentionShape& shape, const ShardPlan& plan) {
  if (plan.world() == 1 || plan.chunk_count() == 0) return 0;
  const RingLayout last = ChunkLayout(MaskSpec{}, plan, plan.chunk_count() - 1);
  int64_t most = 0;
  for (const std::vector<BlockRange>& runs : last.blocks) {
    int64_t blocks = 0;
    for (const BlockRange& run : runs) blocks += run.size();
    most = std::max(most, blocks);
  }
  return 2 * static_cast<size_t>(most) * KvBlockBytes(shape);
}

}  // namespace rondo
