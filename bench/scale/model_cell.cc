#include <atomic>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "bench/scale/cell.h"
#include "bench/scale/generated_rows.h"
#include "bench/scale/row_digest.h"
#include "bench/scale/traced_transport.h"
#include "model/decoder/decoder.h"
#include "model/gguf/llama_loader.h"
#include "worker/ring/ring_attention.h"

namespace rondo {
namespace {

absl::StatusOr<LoadedModel> Load(const CellOptions& o) {
  auto file = GgufFile::Open(o.model);
  if (!file.ok()) return file.status();
  absl::StatusOr<LoadedModel> model = LoadModel(*std::move(file));
  if (model.ok() && o.tokens > model->config.context) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens: ", o.tokens, " exceed the model's context of ", model->config.context));
  }
  return model;
}

// Any ids do: the arithmetic does not depend on them.
std::vector<int32_t> PromptIds(uint64_t seed, absl::Span<const PositionRun> runs, int32_t vocab) {
  std::vector<int32_t> ids;
  for (const PositionRun& run : runs) {
    for (int64_t p = run.begin; p < run.end; ++p) {
      ids.push_back(static_cast<int32_t>(Mix(seed ^ static_cast<uint64_t>(p)) % static_cast<uint64_t>(vocab)));
    }
  }
  return ids;
}

}  // namespace

absl::StatusOr<CellOutcome> RunModelCell(const CellOptions& o, const KernelSet& kernels, Transport& transport,
                                         ThreadPool& pool) {
  const absl::StatusOr<LoadedModel> model = Load(o);
  if (!model.ok()) return model.status();
  const ModelConfig& config = model->config;
  const ComputeMode mode =
      ParseComputeMode(o.compute).value_or(config.quantised ? ComputeMode::kQ8 : ComputeMode::kF32);
  const AttentionShape shape{config.q_heads, config.kv_heads, config.head_dim, o.kv_type,
                             1.0f / std::sqrt(static_cast<float>(config.head_dim))};
  CellOutcome outcome;
  CellMeter meter(transport);
  meter.Base(outcome.record);
  const int world = transport.world_size();
  const ShardPlan plan = ShardPlan::Zigzag(o.tokens, world, o.prefill_chunk);
  absl::StatusOr<SequenceKv> kv = SequenceKv::Create(shape, config.layers, plan, transport.rank(), o.tokens);
  if (!kv.ok()) return kv.status();
  std::vector<std::vector<PositionRun>> rows_of(world);
  for (int64_t chunk = 0; chunk < plan.chunk_count(); ++chunk) {
    for (int rank = 0; rank < world; ++rank) {
      const std::vector<PositionRun> rows = plan.Rows(chunk, rank);
      rows_of[rank].insert(rows_of[rank].end(), rows.begin(), rows.end());
    }
  }
  std::vector<float> hidden(TotalRows(rows_of[transport.rank()]) * config.embedding);
  TracedTransport traced(transport);
  const std::atomic<bool> never{false};
  Decoder decoder(config, model->weights, *kernels.dense, mode, pool);
  RingAttention attention(*kernels.attention, traced, pool, *kv, plan, world,
                          {.job = 1, .wait_timeout = absl::Minutes(30)}, never);
  if (absl::Status s = meter.Start(); !s.ok()) return s;
  traced.Start();
  float* out = hidden.data();
  for (int64_t chunk = 0; chunk < plan.chunk_count(); ++chunk) {
    const std::vector<PositionRun> runs = plan.Rows(chunk, transport.rank());
    attention.BeginPrefill(chunk);
    if (absl::Status s = decoder.Forward(RowKind::kGiven, PromptIds(o.seed, runs, config.vocab), runs, attention, out,
                                         [](int32_t) {});
        !s.ok()) {
      return s;
    }
    out += TotalRows(runs) * config.embedding;
  }
  meter.Stop(outcome.record);
  outcome.record.steps = traced.Stop();
  outcome.record.sent_bytes = attention.stats().sent_bytes;
  absl::StatusOr<std::string> digest = RowOrderDigest(transport, rows_of, config.embedding, hidden.data());
  if (!digest.ok()) return digest.status();
  outcome.digest = *std::move(digest);
  outcome.strategy = world == 1 ? "local" : "pass-kv";
  outcome.shape = absl::StrCat(shape.q_heads, "/", shape.kv_heads, "x", shape.head_dim);
  outcome.flops = config.layers * CausalFlops(o.tokens, shape.q_heads, shape.head_dim);
  return outcome;
}

}  // namespace rondo
