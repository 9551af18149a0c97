// Where rank 0 says what became of a job: implemented by worker/rpc, and by tests that run ranks as threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace rondo {

struct JobResult {
  std::string id;
  std::string finish_reason;  // stop | length | cancelled | error
  absl::Status error;         // when error
  int64_t steps = 0;          // sampled positions
  std::string digest;         // SHA-256 over the float32 logits of every sampled position
  int64_t prefill_us = 0;
  int64_t decode_us = 0;
  std::string strategy;
  uint64_t exchanged_bytes = 0;  // sent between ranks, all ranks together
  std::vector<uint64_t> kv_bytes_per_worker;
};

// How an attention job ran; O is ready on every rank of the job.
struct AttentionFigures {
  std::string id;
  absl::Status error;  // not OK: it did not run and is still open
  int64_t run_us = 0;
  int workers = 0;
  std::string strategy;
  std::string strategy_reason;
  double pass_kv_us = 0;
  double pass_q_us = 0;
  uint64_t exchanged_bytes = 0;  // all ranks together
  uint64_t skipped_steps = 0;    // all ranks together
  std::vector<uint64_t> memory_bytes_per_worker;
};

// Called by the step loop's thread; may wait for the network only as long as worker/rpc/outbox.h says.
class ReportSink {
 public:
  virtual ~ReportSink() = default;
  virtual void Progress(const std::string& job, double fraction) = 0;
  // Before Token of the same step, and only for jobs that want logits.
  virtual void Logits(const std::string& job, int64_t step, absl::Span<const float> logits) = 0;
  virtual void Token(const std::string& job, int64_t step, int32_t token, bool is_end) = 0;
  virtual void Ended(const JobResult& result) = 0;
  // Every rank takes the job's pieces from now on.
  virtual void AttentionOpened(const std::string& job) = 0;
  virtual void AttentionRan(const AttentionFigures& figures) = 0;
};

}  // namespace rondo
