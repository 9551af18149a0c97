// One attention job's tensors on one rank: filled piece by piece from the network's threads, computed by the step loop,
// read piece by piece again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/huge_array.h"
#include "rondo/attention_job.h"
#include "rondo/transport.h"
#include "worker/session/row_share.h"
#include "worker/session/upload_watch.h"

namespace rondo {

enum class JobTensor : uint8_t { kQ, kK, kV, kO, kLse };  // numbered as in the proto
constexpr const char* Name(JobTensor t) {
  constexpr const char* kNames[] = {"Q", "K", "V", "O", "LSE"};
  return kNames[static_cast<int>(t)];
}

class AttentionTensors {
 public:
  // Of the first `ranks` ranks of `transport`, this one being among them. RESOURCE_EXHAUSTED when memory cannot be had.
  // Kernels, transport and pool outlive it.
  static absl::StatusOr<std::shared_ptr<AttentionTensors>> Create(AttentionJobSpec spec, int ranks,
                                                                  const AttentionKernels& kernels, Transport& transport,
                                                                  ThreadPool& pool);
  ~AttentionTensors();

  const AttentionJobSpec& spec() const { return spec_; }
  // Takes whole rows of Q, K or V, float32 or bfloat16, in parts as they came. Any thread. INVALID_ARGUMENT,
  // OUT_OF_RANGE (not this rank's rows), FAILED_PRECONDITION (the job has run) or RESOURCE_EXHAUSTED with the numbers.
  absl::Status Put(JobTensor tensor, int64_t first_row, KvType type, absl::Span<const absl::Span<const uint8_t>> parts);

  // Rows of O or LSE once the job has run; they stay as long as the job's shared_ptr. rows 0: to the end of the run.
  struct Rows {
    const float* data = nullptr;
    int64_t count = 0;
    int64_t row_elements = 0;
  };
  absl::StatusOr<Rows> Get(JobTensor tensor, int64_t first_row, int64_t rows) const;

  // Whether rows came since the last call. Any thread.
  bool TakeFed() { return fed_.exchange(false, std::memory_order_relaxed); }

  // Told of every upload stream that names this job.
  UploadWatch& uploads() { return uploads_; }

  // --- the step loop ---
  // FAILED_PRECONDITION naming what is missing, that the job has run, or that pieces are still being stored after
  // some seconds. After OK no piece is taken until CancelBegin.
  absl::Status BeginRun();
  void CancelBegin();
  // Collective over the job's ranks, after BeginRun was OK on all of them.
  absl::StatusOr<RingReport> Run(const RingRunOptions& options, const std::atomic<bool>& cancelled);

 private:
  enum class State : uint8_t { kOpen, kRunning, kDone };

  explicit AttentionTensors(AttentionJobSpec spec) : spec_(std::move(spec)) {}
  void StoreKv(JobTensor tensor, int64_t first_row, int64_t rows, KvType type,
               absl::Span<const absl::Span<const uint8_t>> parts);

  const AttentionJobSpec spec_;
  RingProblem problem_;  // points into spec_
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<RingAttend> ring_;
  RowShare q_share_, kv_share_;
  HugeArray<float> q_, out_, lse_;

  std::atomic<bool> fed_{false};
  UploadWatch uploads_;
  mutable std::mutex mutex_;
  std::condition_variable quiet_;
  State state_ = State::kOpen;
  int writers_ = 0;  // Puts between their check and their end
  ArrivedRows arrived_[3];
};

}  // namespace rondo
