#include "model/cost/cost_model.h"

#include <algorithm>
#include <cmath>

#include "rondo/canonical.h"

namespace rondo {
namespace {

// Counts are large where a shape is: past this they are shown as this.
constexpr double kMostBytes = 0x1p62;
uint64_t Bytes(double bytes) { return static_cast<uint64_t>(std::min(bytes, kMostBytes)); }

// Blocks of the rank that has most: zigzag pieces are whole blocks, so a short prompt is not cut evenly.
double BlocksOfRank(int64_t tokens, int world) {
  const int64_t blocks = std::max<int64_t>(1, BlocksFor(tokens));
  return static_cast<double>((blocks + world - 1) / world);
}

// The busiest rank's share of the work, 1 / world when the blocks divide.
double Share(int64_t tokens, int world) {
  return BlocksOfRank(tokens, world) / static_cast<double>(std::max<int64_t>(1, BlocksFor(tokens)));
}

double LayerKvBytes(const CostShape& shape, double tokens) {
  return tokens * static_cast<double>(shape.KvBytesPerToken()) / static_cast<double>(shape.layers);
}

// Partial results that travel home or wait to be merged: (m, l, o) of every head.
double NodeBytes(const CostShape& shape) { return 4.0 * static_cast<double>(shape.q_heads * (shape.head_dim + 2)); }

void PlanPrefill(const CostShape& shape, const CostRequest& request, const RankRates& rates, CostPlan* plan) {
  const double tokens = static_cast<double>(request.prompt_tokens);
  const double share = Share(request.prompt_tokens, request.world);
  const double width = static_cast<double>(shape.q_heads * shape.head_dim);
  plan->prefill_dense_s = 2 * shape.LayerParameters() * tokens * share / rates.dense_flops;
  // Query i sees i + 1 keys; a key costs 2 * head_dim for the score and as much for the value.
  const double layer_flops = 4 * width * tokens * (tokens + 1) / 2 * share;
  plan->prefill_attention_s = static_cast<double>(shape.layers) * layer_flops / rates.attention_flops;
  if (request.world > 1) {
    const double step_s = layer_flops / rates.attention_flops / request.world;
    const double transfer_s = rates.link_latency_s + LayerKvBytes(shape, tokens * share) / rates.link_bytes_per_s;
    plan->prefill_exposed_s =
        static_cast<double>(shape.layers) * (request.world - 1) * std::max(0.0, transfer_s - step_s);
    // T / N >= C * e * kv_heads / (q_heads * BW) with a causal step of half the square (Yang et al., arXiv 2411.01783).
    plan->hidden_from_tokens = rates.attention_flops * static_cast<double>(ElementBytes(shape.kv_type)) *
                               static_cast<double>(shape.kv_heads) /
                               (static_cast<double>(shape.q_heads) * rates.link_bytes_per_s);
  }
  const double logits_s =
      rates.decode_dense_s * shape.OutputParameters() / (shape.OutputParameters() + shape.LayerParameters());
  plan->ttft_s = plan->prefill_dense_s + plan->prefill_attention_s + plan->prefill_exposed_s + logits_s;
}

void PlanDecode(const CostShape& shape, const CostRequest& request, const RankRates& rates, CostPlan* plan) {
  if (rates.decode_dense_s <= 0 || rates.kv_read_bytes_per_s <= 0) return;
  // In the middle of the answer.
  const double depth = static_cast<double>(request.prompt_tokens) + static_cast<double>(request.answer_tokens) / 2;
  const double share = Share(request.prompt_tokens + request.answer_tokens, request.world);
  plan->decode_dense_s = rates.decode_dense_s;
  plan->decode_attention_s =
      rates.decode_attend_s + depth * share * static_cast<double>(shape.KvBytesPerToken()) / rates.kv_read_bytes_per_s;
  if (request.world > 1) {
    // A rank's two runs of blocks are about log2 of their length subtrees each.
    const double nodes = 2 * (1 + std::log2(std::max(1.0, depth * share / (2 * kBlockTokens))));
    plan->decode_exchange_s =
        static_cast<double>(shape.layers) *
        (rates.link_latency_s + nodes * NodeBytes(shape) * (request.world - 1) / rates.link_bytes_per_s);
  }
  plan->tpot_s = plan->decode_dense_s + plan->decode_attention_s + plan->decode_exchange_s;
}

// A worker before its first job: libraries, gRPC's and MPI's threads, the tokenizer's tables. Measured: 41 MiB beyond
// mapped weights and what is planned for, at 2,048 and at 4,096 tokens.
constexpr uint64_t kProcessBytes = uint64_t{41} << 20;

void PlanMemory(const CostShape& shape, const CostRequest& request, const RankRates& rates, CostPlan* plan) {
  const double kv_tokens =
      BlocksOfRank(request.prompt_tokens + request.answer_tokens, request.world) * static_cast<double>(kBlockTokens);
  const double rows = BlocksOfRank(request.prompt_tokens, request.world) * static_cast<double>(kBlockTokens);
  plan->weight_bytes = shape.weight_bytes / std::max<uint64_t>(1, rates.shared_weight_ranks);
  plan->kv_bytes = Bytes(kv_tokens * static_cast<double>(shape.KvBytesPerToken()));
  plan->buffer_bytes = request.world == 1 ? 0 : Bytes(2 * LayerKvBytes(shape, rows));
  // A row's residual, q, attended q, k, v, cos and sin; and its partials, of which about 1 + log2(world) wait for a
  // sibling while blocks come round.
  const double width = static_cast<double>(shape.q_heads * shape.head_dim);
  const double kv_width = static_cast<double>(shape.kv_heads * shape.head_dim);
  const double row_bytes =
      4 * (static_cast<double>(shape.embedding) + 2 * width + 2 * kv_width + static_cast<double>(shape.head_dim)) +
      (request.world == 1 ? 0 : (1 + std::log2(request.world)) * NodeBytes(shape));
  plan->activation_bytes = Bytes(rows * row_bytes);
  plan->process_bytes = kProcessBytes;
  plan->rank_bytes = Bytes(static_cast<double>(plan->weight_bytes) + static_cast<double>(plan->kv_bytes) +
                           static_cast<double>(plan->buffer_bytes) + static_cast<double>(plan->activation_bytes) +
                           static_cast<double>(plan->process_bytes));
  plan->fits = rates.memory_bytes == 0 || plan->rank_bytes <= rates.memory_bytes;
}

int64_t LargestPrompt(const CostShape& shape, CostRequest request, const RankRates& rates) {
  if (rates.memory_bytes == 0) return 0;
  const auto fits = [&](int64_t tokens) {
    request.prompt_tokens = tokens;
    CostPlan plan;
    PlanMemory(shape, request, rates, &plan);
    return plan.fits;
  };
  int64_t low = 0, high = int64_t{1} << 40;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

double CostShape::LayerParameters() const {
  const double q_width = static_cast<double>(q_heads * head_dim), kv_width = static_cast<double>(kv_heads * head_dim);
  const double width = static_cast<double>(embedding);
  return static_cast<double>(layers) *
         (2 * width * q_width + 2 * width * kv_width + 3 * width * static_cast<double>(feed_forward));
}

uint64_t CostShape::KvBytesPerToken() const {
  return uint64_t{2} * layers * kv_heads * head_dim * ElementBytes(kv_type);
}

CostShape ShapeOfModel(const ModelConfig& config, uint64_t weight_bytes, KvType kv_type) {
  return {config.layers,   config.embedding, config.feed_forward, config.q_heads, config.kv_heads,
          config.head_dim, config.vocab,     weight_bytes,        kv_type};
}

CostPlan PlanCost(const CostShape& shape, const CostRequest& request, const RankRates& rates) {
  CostPlan plan;
  PlanPrefill(shape, request, rates, &plan);
  PlanDecode(shape, request, rates, &plan);
  PlanMemory(shape, request, rates, &plan);
  plan.largest_prompt = LargestPrompt(shape, request, rates);
  return plan;
}

}  // namespace rondo
