#include <algorithm>
#include <atomic>

#include "bench/scale/cell.h"
#include "bench/scale/generated_rows.h"
#include "bench/scale/head_shape.h"
#include "bench/scale/row_digest.h"
#include "bench/scale/traced_transport.h"
#include "rondo/ring.h"
#include "worker/ring/calibrate.h"

namespace rondo {
namespace {

// Keys and values go to the ring in pieces: no rank holds its share of them twice.
constexpr int64_t kPieceRows = 1024;

void StoreGenerated(const CellOptions& o, int64_t columns, RingAttend& ring) {
  std::vector<float> piece(kPieceRows * columns);
  for (const PositionRun& run : ring.kv_rows()) {
    for (int64_t row = run.begin; row < run.end; row += kPieceRows) {
      const int64_t count = std::min(kPieceRows, run.end - row);
      GenerateRows(o.seed, GeneratedTensor::kKeys, row, count, columns, piece.data());
      ring.StoreKeys(row, count, piece.data());
      GenerateRows(o.seed, GeneratedTensor::kValues, row, count, columns, piece.data());
      ring.StoreValues(row, count, piece.data());
    }
  }
}

std::vector<float> GenerateQueries(const CellOptions& o, int64_t columns, absl::Span<const PositionRun> runs) {
  std::vector<float> q(TotalRows(runs) * columns);
  float* at = q.data();
  for (const PositionRun& run : runs) {
    GenerateRows(o.seed, GeneratedTensor::kQueries, run.begin, run.size(), columns, at);
    at += run.size() * columns;
  }
  return q;
}

}  // namespace

absl::StatusOr<CellOutcome> RunTensorCell(const CellOptions& o, const KernelSet& kernels, Transport& transport,
                                          ThreadPool& pool) {
  const absl::StatusOr<AttentionShape> shape = ParseHeads(o.heads, o.kv_type);
  if (!shape.ok()) return shape.status();
  const std::optional<RingStrategy> strategy = ParseRingStrategy(o.strategy);
  if (!strategy.has_value()) return absl::InvalidArgumentError("strategy must be auto, pass-kv or pass-q");
  RingRunOptions run;
  run.strategy = *strategy;
  if (*strategy == RingStrategy::kAuto && transport.world_size() > 1) {
    // As a worker does when it starts: without rates there is nothing to choose by.
    const absl::StatusOr<RingRates> rates = MeasureRates(*kernels.attention, *shape, transport, pool);
    if (!rates.ok()) return rates.status();
    run.rates = *rates;
  }
  CellOutcome outcome;
  CellMeter meter(transport);
  meter.Base(outcome.record);
  RingProblem problem;
  problem.shape = *shape;
  problem.q_tokens = problem.kv_tokens = o.tokens;
  TracedTransport traced(transport);
  absl::StatusOr<std::unique_ptr<RingAttend>> ring = RingAttend::Create(problem, *kernels.attention, traced, pool);
  if (!ring.ok()) return ring.status();
  const int64_t columns = int64_t{shape->q_heads} * shape->head_dim;
  StoreGenerated(o, int64_t{shape->kv_heads} * shape->head_dim, **ring);
  const std::vector<float> q = GenerateQueries(o, columns, (*ring)->q_rows());
  std::vector<float> out(q.size());
  run.wait_timeout = absl::Hours(2);  // a ring step of a long sequence on one core
  run.job = 1;
  const std::atomic<bool> never{false};
  if (absl::Status s = meter.Start(); !s.ok()) return s;
  traced.Start();
  const absl::StatusOr<RingReport> report = (*ring)->Run(q.data(), out.data(), nullptr, run, never);
  if (!report.ok()) return report.status();
  meter.Stop(outcome.record);
  outcome.record.steps = traced.Stop();
  // A ring ends with an agreement of all ranks: nothing is computed after it.
  if (outcome.record.steps.size() > 1) outcome.record.steps.pop_back();
  outcome.record.sent_bytes = report->sent_bytes;
  outcome.record.skipped_steps = report->skipped_steps;
  outcome.strategy = Name(report->choice.strategy);
  outcome.shape = o.heads;
  outcome.flops = CausalFlops(o.tokens, shape->q_heads, shape->head_dim);
  absl::StatusOr<std::string> digest =
      RowOrderDigest(transport, PlanShares(problem, transport.world_size()).q_rows, columns, out.data());
  if (!digest.ok()) return digest.status();
  outcome.digest = *std::move(digest);
  return outcome;
}

}  // namespace rondo
