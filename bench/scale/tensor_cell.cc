#include <cmath>

#include "base/check.h"
#include "bench/scale/cell.h"
#include "bench/scale/generated_rows.h"
#include "bench/scale/head_shape.h"
#include "bench/scale/row_digest.h"
#include "bench/scale/traced_transport.h"
#include "worker/ring/ring_attention.h"

namespace rondo {

absl::StatusOr<CellOutcome> RunTensorCell(const CellOptions& o, const KernelSet& kernels, Transport& transport,
                                          ThreadPool& pool) {
  const absl::StatusOr<AttentionShape> shape = ParseHeads(o.heads, o.kv_type);
  if (!shape.ok()) return shape.status();
  CellOutcome outcome;
  CellMeter meter(transport);
  meter.Base(outcome.record);
  const int64_t q_columns = int64_t{shape->q_heads} * shape->head_dim;
  const int64_t kv_columns = int64_t{shape->kv_heads} * shape->head_dim;
  const ShardPlan plan = ShardPlan::Zigzag(o.tokens, transport.world_size(), 0);
  absl::StatusOr<SequenceKv> kv = SequenceKv::Create(*shape, 1, plan, transport.rank(), o.tokens);
  if (!kv.ok()) return kv.status();
  const std::vector<PositionRun> runs = plan.Rows(0, transport.rank());
  const int64_t rows = TotalRows(runs);
  std::vector<float> q(rows * q_columns), k(rows * kv_columns), v(rows * kv_columns), out(rows * q_columns);
  int64_t at = 0;
  for (const PositionRun& run : runs) {
    GenerateRows(o.seed, GeneratedTensor::kQueries, run.begin, run.size(), q_columns, q.data() + at * q_columns);
    GenerateRows(o.seed, GeneratedTensor::kKeys, run.begin, run.size(), kv_columns, k.data() + at * kv_columns);
    GenerateRows(o.seed, GeneratedTensor::kValues, run.begin, run.size(), kv_columns, v.data() + at * kv_columns);
    at += run.size();
  }
  TracedTransport traced(transport);
  const std::atomic<bool> never{false};
  RingAttention attention(*kernels.attention, traced, pool, *kv, plan, transport.world_size(), {.job = 1, .wait_timeout = absl::Minutes(30)}, never);
  attention.BeginPrefill(0);
  if (absl::Status s = meter.Start(); !s.ok()) return s;
  traced.Start();
  if (absl::Status s = attention.Run(0, runs, q.data(), k.data(), v.data(), out.data()); !s.ok()) return s;
  meter.Stop(outcome.record);
  outcome.record.steps = traced.Stop();
  outcome.record.sent_bytes = attention.stats().sent_bytes;
  outcome.strategy = "pass-kv";
  std::vector<std::vector<PositionRun>> rows_of;
  for (int rank = 0; rank < transport.world_size(); ++rank) rows_of.push_back(plan.Rows(0, rank));
  absl::StatusOr<std::string> digest = RowOrderDigest(transport, rows_of, q_columns, out.data());
  if (!digest.ok()) return digest.status();
  outcome.digest = *std::move(digest);
  outcome.shape = o.heads;
  outcome.flops = CausalFlops(o.tokens, shape->q_heads, shape->head_dim);
  return outcome;
}

}  // namespace rondo
