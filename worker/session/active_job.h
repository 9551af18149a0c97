// One job on one rank from StartJob to its end: its plan, KV, ring, tokens, and on rank 0 the sampler and the digest;
// advanced by the step loop, one prefill chunk or one token a step.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/aligned.h"
#include "base/sha256.h"
#include "model/decoder/decoder.h"
#include "model/tokenizer/stream_detokenizer.h"
#include "rondo/plan.h"
#include "worker/ring/ring_attention.h"
#include "worker/ring/sequence_kv.h"
#include "worker/session/command.h"
#include "worker/session/report.h"
#include "worker/session/step_control.h"
#include "worker/session/worker_context.h"

namespace rondo {

class ActiveJob {
 public:
  // `cancelled` may be set by any thread. `sequence` counts the jobs of the epoch, the same on every rank.
  // RESOURCE_EXHAUSTED with the numbers when this rank's KV memory, of which other jobs hold `kv_used_bytes`, is too
  // small or cannot be had.
  static absl::StatusOr<std::unique_ptr<ActiveJob>> Create(const WorkerContext& context, StartJob start,
                                                           std::shared_ptr<std::atomic<bool>> cancelled,
                                                           uint64_t sequence, uint64_t kv_used_bytes, ReportSink* sink);

  const std::string& id() const { return start_.id; }
  int ring_size() const { return ring_size_; }
  bool takes_part() const { return context_.transport->rank() < ring_size_; }
  uint64_t kv_bytes() const { return kv_ ? kv_->reserved_bytes() : 0; }

  // The most rows of one step on this rank.
  int64_t most_rows() const;

  // One prefill chunk or one decode step; every rank of the ring calls. The outcome is meant for rank 0, which tells
  // the others. Errors end the epoch; a job's own trouble is an outcome.
  absl::StatusOr<StepOutcome> Step(Decoder& decoder);

  // On every rank of the ring, with rank 0's outcome of the last Step.
  void Apply(const StepOutcome& outcome);

  // After kFinished, kCancelled or kFailed: rank 0 reports, with figures gathered from the ring if it finished.
  absl::Status Finish(const StepOutcome& outcome);

 private:
  ActiveJob(const WorkerContext& context, StartJob start, std::shared_ptr<std::atomic<bool>> cancelled,
            ReportSink* sink);

  bool leads() const { return context_.transport->rank() == 0; }
  absl::Status RunPrefillChunk(Decoder& decoder);
  void NoteChoice(int64_t chunk);
  absl::Status RunDecode(Decoder& decoder);
  StepOutcome Draw(Decoder& decoder);
  StepOutcome TakeToken(int32_t token);
  void ReportProgress(double fraction);

  const WorkerContext& context_;
  StartJob start_;
  std::shared_ptr<std::atomic<bool>> cancelled_;
  ReportSink* sink_;  // rank 0 only
  int ring_size_ = 1;
  ShardPlan plan_;
  std::optional<SequenceKv> kv_;
  std::unique_ptr<RingAttention> ring_;
  RingStrategy strategy_ = RingStrategy::kPassKv;  // of the chunk computed last

  int64_t next_chunk_ = 0;
  int64_t drawn_ = 0;       // tokens so far
  int32_t last_token_ = 0;  // the one the next decode step feeds
  Scratch<float> hidden_rows_;
  std::vector<float> hidden_;  // [embedding], of the newest position
  std::vector<float> logits_;  // [vocab], rank 0

  // Rank 0: how it ends.
  std::string finish_reason_;
  absl::Status error_;
  Sha256 digest_;
  StreamDetokenizer detokenizer_;
  int64_t started_us_ = 0;
  int64_t first_token_us_ = 0;
  int64_t last_progress_us_ = 0;
};

}  // namespace rondo
