// The step loop's side of attention jobs: opens, runs and closes them, all ranks of the group together.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "worker/session/attention_tensors.h"
#include "worker/session/command.h"
#include "worker/session/report.h"
#include "worker/session/worker_context.h"

namespace rondo {

// One thread. Every rank makes the same calls in the same order. Errors end the epoch; a job's own trouble is reported
// (by rank 0) and is that job's end.
class AttentionJobs {
 public:
  // `sink` is used on rank 0 only. The arguments outlive it.
  AttentionJobs(const WorkerContext& context, ReportSink* sink) : context_(context), sink_(sink) {}
  ~AttentionJobs();

  // `used_bytes`: KV memory that other jobs hold on this rank. False: the job could not be opened on every rank.
  absl::StatusOr<bool> Open(OpenAttention open, uint64_t used_bytes, std::shared_ptr<std::atomic<bool>> cancelled);

  // Runs the job from its first ring step to its last; `sequence` is different for every run of the epoch. A job that
  // was closed before is passed over.
  absl::Status Run(const std::string& id, uint64_t sequence);

  // Also of a job that is not here: then nothing happens.
  void Close(const std::string& id);

  uint64_t held_bytes() const;

 private:
  struct Entry {
    std::shared_ptr<AttentionTensors> tensors;  // null on a rank that takes no part
    int ring_size = 1;
    uint64_t bytes = 0;
    std::shared_ptr<std::atomic<bool>> cancelled;
  };

  absl::StatusOr<Entry> MakeReady(const OpenAttention& open, uint64_t used_bytes) const;
  absl::Status Compute(const std::string& id, Entry& entry, uint64_t sequence);

  const WorkerContext& context_;
  ReportSink* sink_;
  std::map<std::string, Entry> jobs_;
};

}  // namespace rondo
