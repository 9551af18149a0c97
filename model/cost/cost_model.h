// What a job will take on a ring: time to the first token, time of a token, memory of a rank. Used by `rondo plan`.
// Pure arithmetic on shapes and rates; docs/ALGORITHMS.md, "The plan", has each formula with its source.
#pragma once

#include <cstdint>

#include "rondo/compute.h"
#include "rondo/model.h"

namespace rondo {

// What the cost of a model depends on.
struct CostShape {
  int64_t layers = 0;
  int64_t embedding = 0;
  int64_t feed_forward = 0;
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab = 0;
  uint64_t weight_bytes = 0;  // all of them, as kept in memory
  KvType kv_type = KvType::kBf16;

  // Weights that one row is multiplied with, without the output matrix.
  double LayerParameters() const;
  double OutputParameters() const { return static_cast<double>(vocab) * static_cast<double>(embedding); }
  uint64_t KvBytesPerToken() const;  // all layers
};

CostShape ShapeOfModel(const ModelConfig& config, uint64_t weight_bytes, KvType kv_type);

// What one rank does when all ranks of its host work at once; measured by `rondo-worker --measure` or given.
struct RankRates {
  double dense_flops = 0;            // matrix products of many rows, with the norms and the rest around them
  double attention_flops = 0;        // of prefill, useful ones: 4 * head_dim for a query head and a visible key
  double decode_dense_s = 0;         // one row through every matrix and to logits
  double decode_attend_s = 0;        // one row's attention in all layers over next to no keys
  double kv_read_bytes_per_s = 0;    // a row's attention over many keys
  double link_bytes_per_s = 0;       // to the next rank
  double link_latency_s = 0;         // an exchange of a few kilobytes among all ranks
  uint64_t memory_bytes = 0;         // of one rank, for weights, KV and the rest; 0: unknown
  uint64_t shared_weight_ranks = 1;  // ranks that share one mapping of the weights
};

struct CostRequest {
  int64_t prompt_tokens = 0;
  int64_t answer_tokens = 0;
  int world = 1;
};

struct CostPlan {
  // Prefill, seconds.
  double prefill_dense_s = 0;
  double prefill_attention_s = 0;  // of the busiest rank
  double prefill_exposed_s = 0;    // transfers that compute does not hide
  double ttft_s = 0;
  // One token after the prompt, seconds.
  double decode_dense_s = 0;
  double decode_attention_s = 0;
  double decode_exchange_s = 0;
  double tpot_s = 0;  // 0: not known
  // Memory of one rank, bytes.
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t buffer_bytes = 0;      // two receive buffers of the ring
  uint64_t activation_bytes = 0;  // rows on their way through a layer
  uint64_t process_bytes = 0;     // the program itself, before its first job
  uint64_t rank_bytes = 0;
  bool fits = true;
  int64_t largest_prompt = 0;  // tokens that fit; 0: the memory is unknown, or not even the weights fit
  // Least number of new tokens a rank for which KV blocks travel unseen behind compute; 0 for one rank.
  double hidden_from_tokens = 0;
};

CostPlan PlanCost(const CostShape& shape, const CostRequest& request, const RankRates& rates);

}  // namespace rondo
