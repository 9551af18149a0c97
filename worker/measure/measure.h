// What this rank can do, measured in a few seconds while every other rank does the same: the rates behind `rondo plan`.
// Used by rondo-worker --measure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/session/worker_context.h"

namespace rondo {

struct MeasuredRates {
  double dense_flops = 0;          // 2 a multiply-add of a layer's matrices, all of a layer but attention timed
  double attention_flops = 0;      // causal prefill of kAttentionTokens, useful ones
  double decode_dense_s = 0;       // one row and its logits
  double decode_attend_s = 0;      // all layers, next to no keys
  double kv_read_bytes_per_s = 0;  // all layers, many keys
  double link_bytes_per_s = 0;     // 0 for one rank
  double link_latency_s = 0;
};

// Collective: all ranks of the context's transport measure at the same time, and each returns the slowest rank's rates.
// Takes about five seconds. Errors are the transport's, or RESOURCE_EXHAUSTED for the KV of the measurement.
absl::StatusOr<MeasuredRates> MeasureRates(const WorkerContext& context);

// One line of JSON with the rates and the facts they belong to.
std::string MeasuredJson(const MeasuredRates& rates, const WorkerContext& context);

}  // namespace rondo
