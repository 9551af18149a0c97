// The life of one rank inside an epoch: sleep until there is a command, then step all active jobs together with the
// other ranks until none is left. Membership comes from the coordinator; steps are decided here, by rank 0.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/decoder/decoder.h"
#include "worker/session/active_job.h"
#include "worker/session/attention_jobs.h"
#include "worker/session/command_queue.h"
#include "worker/session/report.h"
#include "worker/session/worker_context.h"

namespace rondo {

// All ranks take in the same commands before the same step, because rank 0 says at the head of every step up to which
// number; so their lists of active jobs, and with them their messages, always match.
class StepLoop {
 public:
  // `sink` is used on rank 0 only. All arguments outlive the loop.
  StepLoop(const WorkerContext& context, CommandQueue& commands, ReportSink* sink);

  // Runs until the queue is closed (returns its reason) or the transport fails. One thread, once.
  absl::Status Run();

  // Any thread: makes a running job stop computing within one ring step; its CancelJob command follows in the queue.
  void FlagCancelled(const std::string& job);

  uint64_t kv_used_bytes() const { return kv_used_bytes_.load(std::memory_order_relaxed); }
  uint64_t applied_number() const { return applied_number_.load(std::memory_order_relaxed); }
  // Grows with everything the loop does: its steps, and every task its threads compute in a long one.
  uint64_t progress() const;

 private:
  absl::Status Step();
  absl::Status ExchangeControl(std::vector<StepOutcome>& outcomes, uint64_t& through);
  absl::Status ApplyOutcomes(const std::vector<StepOutcome>& outcomes);
  absl::Status ApplyCommands(uint64_t through);
  absl::Status Start(StartJob start);
  absl::Status Open(OpenAttention open);
  absl::StatusOr<std::unique_ptr<ActiveJob>> MakeReady(StartJob start, std::shared_ptr<std::atomic<bool>> cancelled);
  absl::Status Cancel(const CancelJob& cancel);
  void EndJob(const std::string& job, absl::Status error);
  uint64_t KvBytesHeld() const;
  std::shared_ptr<std::atomic<bool>> CancelFlag(const std::string& job);

  const WorkerContext& context_;
  CommandQueue& commands_;
  ReportSink* sink_;
  std::optional<Decoder> decoder_;  // none without a model
  AttentionJobs attention_;
  std::vector<std::unique_ptr<ActiveJob>> active_;
  std::vector<StepOutcome> outcomes_;  // of the last step, by active job; rank 0's are the ones that count
  std::vector<std::byte> control_;
  std::atomic<uint64_t> step_{0};
  uint64_t job_sequence_ = 0;
  std::atomic<uint64_t> applied_number_{0};
  std::atomic<uint64_t> kv_used_bytes_{0};
  std::mutex flags_mutex_;
  std::map<std::string, std::shared_ptr<std::atomic<bool>>> flags_;
};

}  // namespace rondo
