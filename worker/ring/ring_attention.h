// Attention of one job on ranks [0, ring_size) of a transport: the decoder calls it layer by layer, the worker's step
// loop says which rows come next.
#pragma once

#include <atomic>
#include <cstdint>

#include "rondo/attention.h"
#include "worker/ring/pass_kv.h"
#include "worker/ring/pass_q.h"
#include "worker/ring/ring_context.h"
#include "worker/ring/ring_decode.h"

namespace rondo {

// The bits of `out` do not depend on ring_size, the plan, chunks or threads.
//
// Cancellation: with several ranks only the ring ends a job, so that all ranks return CANCELLED from the same layer
// and no message is left behind: set `cancelled` (any thread, any rank or all) and keep calling Run until it returns
// CANCELLED. A rank that knows of it skips compute and sends headers without payload; rank 0's own header of a layer
// says whether that layer is the last; the last layer of a chunk ends with an agreement of all ranks, so that no rank
// can take rows computed after somebody stopped for a result. Rows of a layer during which the job was being cancelled
// are zeros.
//
// Errors: what the transport returned; INTERNAL, after aborting the transport, for a message that is not the one due.
// One thread at a time. All arguments must outlive the object.
class RingAttention : public Attention {
 public:
  // `plan` is for ring_size ranks and the one `kv` was made with. With ring_size 1 the transport is not used.
  RingAttention(const AttentionKernels& kernels, Transport& transport, ThreadPool& threads, SequenceKv& kv,
                const ShardPlan& plan, int ring_size, const RingOptions& options, const std::atomic<bool>& cancelled);

  // The following Run calls, one for each layer, are for plan.Rows(chunk, rank). Chunks ascend from 0.
  void BeginPrefill(int64_t chunk);

  // The following Run calls are for the one row at `position`, which every rank brings; its block's owner keeps it.
  // Everything before `position` has been stored.
  void BeginDecode(int64_t position);

  absl::Status Run(int32_t layer, absl::Span<const PositionRun> runs, const float* q, const float* k, const float* v,
                   float* out) override;

  const RingStats& stats() const { return context_.stats; }

  // How the chunk begun last is computed, and why.
  const RingChoice& choice() const { return choice_; }

  // Bytes the ring needs beside the KV for a prompt planned so, on any rank: two receive buffers.
  static size_t BufferBytes(const AttentionShape& shape, const ShardPlan& plan);

 private:
  const ShardPlan& plan_;
  RingContext context_;
  PassKv pass_kv_;
  PassQ pass_q_;
  RingDecode decode_;
  bool prefill_ = true;
  RingChoice choice_;
};

}  // namespace rondo
