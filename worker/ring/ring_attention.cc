#include "worker/ring/ring_attention.h"

#include "base/check.h"

namespace rondo {

RingAttention::RingAttention(const AttentionKernels& kernels, Transport& transport, ThreadPool& threads, SequenceKv& kv,
                             const ShardPlan& plan, int ring_size, const RingOptions& options,
                             const std::atomic<bool>& cancelled)
    : context_{kernels, transport, threads, kv, plan, ring_size, options, cancelled, false, {}},
      pass_kv_(context_),
      decode_(context_) {
  RONDO_CHECK(plan.world() == ring_size);
  RONDO_CHECK(ring_size == 1 || (transport.rank() < ring_size && ring_size <= transport.world_size()));
}

void RingAttention::BeginPrefill(int64_t chunk) {
  prefill_ = true;
  pass_kv_.Begin(chunk);
}

void RingAttention::BeginDecode(int64_t position) {
  prefill_ = false;
  decode_.Begin(position);
}

absl::Status RingAttention::Run(int32_t layer, absl::Span<const PositionRun> runs, const float* q, const float* k,
                                const float* v, float* out) {
  return prefill_ ? pass_kv_.Run(layer, runs, q, k, v, out) : decode_.Run(layer, runs, q, k, v, out);
}

size_t RingAttention::BufferBytes(const AttentionShape& shape, const ShardPlan& plan) {
  return 2 * PassKv::ReceiveBufferBytes(shape, plan);
}

}  // namespace rondo
