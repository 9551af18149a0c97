// What the ring's strategies share during one job on one rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rondo/attention_kernels.h"
#include "rondo/ring.h"
#include "rondo/transport.h"
#include "worker/ring/ring_header.h"
#include "worker/ring/sequence_kv.h"

namespace rondo {

class ThreadPool;

struct RingOptions {
  uint64_t job = 0;  // the same on all ranks and different from the job before; goes into every header
  // Of each wait for a peer. It must cover a peer's compute of one ring step, not only the wire.
  absl::Duration wait_timeout = absl::Seconds(60);
  RingStrategy strategy = RingStrategy::kAuto;  // of prefill
  RingRates rates = {};                         // for kAuto; zeros: pass-KV
};

struct RingStats {
  uint64_t sent_bytes = 0;      // payloads and headers, to other ranks
  int64_t waits = 0;            // ring steps and decode exchanges
  int64_t skipped_steps = 0;    // hops to this rank that nobody needed: neither sent nor waited for
  absl::Duration compute;       // attending, merging, finishing
  absl::Duration exposed_wait;  // waiting for a peer with nothing to compute
};

struct RingContext {
  const AttentionKernels& kernels;
  Transport& transport;
  ThreadPool& threads;
  SequenceKv& kv;
  MaskSpec mask;
  int ring_size = 1;
  RingOptions options;
  const std::atomic<bool>* cancelled;
  bool peer_cancelled = false;  // a peer's message said so
  RingStats stats = {};
  std::vector<RingStepTimes>* trace = nullptr;            // null: not wanted
  const std::function<void(double)>* progress = nullptr;  // null: not wanted

  int rank() const { return ring_size == 1 ? 0 : transport.rank(); }
  // Strip `done` of `total` of ring step `step` has been attended.
  void Progress(int step, size_t done, size_t total) const {
    if (progress != nullptr && *progress) (*progress)((step + static_cast<double>(done) / total) / ring_size);
  }
  bool Cancelling() const { return peer_cancelled || cancelled->load(std::memory_order_relaxed); }
  absl::Time Deadline() const { return absl::Now() + options.wait_timeout; }
  absl::Status Cancelled() const { return absl::CancelledError("the job was cancelled"); }
  RingHeader Header(RingHeader::Kind kind, int32_t layer, int64_t position) const {
    RingHeader header;
    header.kind = kind;
    header.job = options.job;
    header.layer = layer;
    header.origin = rank();
    header.position = position;
    return header;
  }
};

// Adds the time from construction to destruction to `total`.
class ScopedTimer {
 public:
  explicit ScopedTimer(absl::Duration& total) : total_(total), start_(absl::GetCurrentTimeNanos()) {}
  ~ScopedTimer() { total_ += absl::Nanoseconds(absl::GetCurrentTimeNanos() - start_); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  absl::Duration& total_;
  const int64_t start_;
};

// Adds what a ring step took, from construction to destruction, to the context's trace.
class StepRecorder {
 public:
  explicit StepRecorder(RingContext& context) : context_(context) {
    if (context.trace == nullptr) return;
    begin_ = absl::Now();
    before_ = context.stats;
  }
  ~StepRecorder() {
    if (context_.trace == nullptr) return;
    const RingStats& now = context_.stats;
    context_.trace->push_back({begin_, now.compute - before_.compute, now.exposed_wait - before_.exposed_wait,
                               now.sent_bytes - before_.sent_bytes});
  }
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

 private:
  RingContext& context_;
  absl::Time begin_;
  RingStats before_;
};

}  // namespace rondo
