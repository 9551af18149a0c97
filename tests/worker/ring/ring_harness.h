// Runs a whole attention job (prefill in chunks, then decode rows) on one rank of a ring; used by the loopback and MPI
// ring tests. Queries, keys and values are functions of (layer, position), so every rank makes its own rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rondo/attention_kernels.h"
#include "rondo/plan.h"
#include "rondo/transport.h"
#include "worker/ring/ring_context.h"

namespace rondo::testing {

struct RingJob {
  const AttentionKernels* kernels = nullptr;
  AttentionShape shape;
  int32_t layers = 2;
  int64_t prompt = 0;
  int64_t decode = 0;  // rows after the prompt
  int64_t chunk = 0;
  int threads = 1;
  RingStrategy strategy = RingStrategy::kPassKv;
  uint64_t number = 1;
  uint64_t seed = 1;
  absl::Duration timeout = absl::Seconds(60);
  // Called before each layer with the count of Run calls so far; a test sets its cancel flag here.
  std::function<void(int64_t)> before_layer;
};

// The value of element i of the row of `what` ('q', 'k', 'v') at `position` in `layer`: standard-normal-like.
float RingValue(const RingJob& job, char what, int32_t layer, int64_t position, int64_t i);

// What one rank knows at the end: rows it did not compute are zero. [layer][position][q_heads * head_dim].
struct RingOutput {
  std::vector<float> values;
  RingStats stats;
};

// CANCELLED and other errors as RingAttention::Run returned them.
absl::StatusOr<RingOutput> RunRingJob(const RingJob& job, Transport& transport, int ring_size,
                                      const std::atomic<bool>& cancelled);

// One rank, no transport.
RingOutput RunAlone(const RingJob& job);

// Naive softmax attention in double over the job's rows (bf16-rounded if the job's KV is): the oracle.
std::vector<double> Oracle(const RingJob& job, int32_t layer, int64_t position);

// Empty, or says where the rows that `rank` must have differ in any bit.
std::string CompareRows(const RingJob& job, int rank, int ring_size, const RingOutput& got, const RingOutput& want);

}  // namespace rondo::testing
