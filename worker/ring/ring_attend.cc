#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "base/check.h"
#include "rondo/ring.h"
#include "worker/ring/pass_kv.h"
#include "worker/ring/pass_q.h"
#include "worker/ring/ring_context.h"
#include "worker/ring/select.h"
#include "worker/ring/sequence_kv.h"
#include "worker/ring/shares.h"

namespace rondo {
namespace {

bool Covers(absl::Span<const PositionRun> runs, int64_t begin, int64_t end) {
  for (const PositionRun& run : runs) {
    if (begin >= run.begin && end <= run.end) return true;
  }
  return false;
}

}  // namespace

struct RingAttend::Impl {
  Impl(const RingProblem& p, const AttentionKernels& kernels, Transport& transport, ThreadPool& pool,
       const RingShares& shares, RingLayout planned, SequenceKv made)
      : problem(p),
        layout(std::move(planned)),
        kv(std::move(made)),
        context{kernels, transport, pool, kv, p.mask, layout.world(), {}, nullptr},
        q_rows(shares.q_rows[context.rank()]),
        kv_rows(shares.kv_rows[context.rank()]),
        pass_kv(context),
        pass_q(context) {}

  // Every row once, in whatever order and pieces, as long as a piece lies in one run.
  void Store(int64_t row, int64_t count, const float* k, const float* v) {
    RONDO_CHECK(count >= 0);
    if (count == 0) return;
    RONDO_CHECK(Covers(kv_rows, row, row + count));
    const PositionRun run{row, row + count};
    kv.Store(0, absl::MakeConstSpan(&run, 1), k, v);
  }

  const RingProblem problem;
  const RingLayout layout;
  SequenceKv kv;
  RingContext context;
  const std::vector<PositionRun> q_rows;
  const std::vector<PositionRun> kv_rows;
  PassKv pass_kv;
  PassQ pass_q;
};

RingAttend::RingAttend(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RingAttend::~RingAttend() = default;

absl::StatusOr<std::unique_ptr<RingAttend>> RingAttend::Create(const RingProblem& problem,
                                                               const AttentionKernels& kernels, Transport& transport,
                                                               ThreadPool& pool) {
  if (absl::Status valid = Validate(problem); !valid.ok()) return valid;
  if (absl::Status supported = kernels.Supports(problem.shape); !supported.ok()) return supported;
  const RingShares shares = PlanShares(problem, transport.world_size());
  RingLayout layout = ProblemLayout(problem, shares);
  absl::StatusOr<SequenceKv> kv = SequenceKv::Create(FullShape(problem), 1, layout.blocks[transport.rank()], {},
                                                     problem.kv_tokens, kernels.memory());
  if (!kv.ok()) return kv.status();
  return std::unique_ptr<RingAttend>(new RingAttend(
      std::make_unique<Impl>(problem, kernels, transport, pool, shares, std::move(layout), *std::move(kv))));
}

absl::Span<const PositionRun> RingAttend::q_rows() const { return impl_->q_rows; }
absl::Span<const PositionRun> RingAttend::kv_rows() const { return impl_->kv_rows; }

std::vector<RingBytes> RingAttend::Bytes(const RingProblem& problem, int world, RingStrategy strategy) {
  const RingLayout layout = ProblemLayout(problem, PlanShares(problem, world));
  std::vector<RingBytes> bytes(world);
  for (int rank = 0; rank < world; ++rank) {
    for (const BlockRange& run : layout.kept[rank]) bytes[rank].kv += run.size() * KvBlockBytes(problem.shape);
  }
  const auto add = [&](const std::vector<RingBuffers>& buffers) {
    for (int rank = 0; rank < world; ++rank) {
      if (buffers[rank].wire + buffers[rank].nodes <= bytes[rank].wire + bytes[rank].nodes) continue;
      bytes[rank].wire = buffers[rank].wire;
      bytes[rank].nodes = buffers[rank].nodes;
    }
  };
  if (world == 1 || strategy != RingStrategy::kPassQ) add(PassKv::Buffers(problem.shape, layout));
  if (world > 1 && strategy != RingStrategy::kPassKv) add(PassQ::Buffers(problem.shape, layout));
  return bytes;
}

void RingAttend::StoreKeys(int64_t row, int64_t count, const float* k) { impl_->Store(row, count, k, nullptr); }
void RingAttend::StoreValues(int64_t row, int64_t count, const float* v) { impl_->Store(row, count, nullptr, v); }

absl::StatusOr<RingReport> RingAttend::Run(const float* q, float* out, float* lse, const RingRunOptions& options,
                                           const std::atomic<bool>& cancelled) {
  RingContext& context = impl_->context;
  RingReport report;
  context.options = {options.job, options.wait_timeout};
  context.cancelled = &cancelled;
  context.peer_cancelled = false;
  context.stats = {};
  context.trace = &report.steps;
  context.progress = &options.progress;
  absl::Status ran;
  report.choice = ChooseFor(impl_->kv.shape(), context.mask, impl_->layout, options.strategy, options.rates);
  if (report.choice.strategy == RingStrategy::kPassQ) {
    impl_->pass_q.Begin(impl_->layout, 0);
    ran = impl_->pass_q.Run(0, q, out, lse);
  } else {
    impl_->pass_kv.Begin(impl_->layout, 0);
    ran = impl_->pass_kv.Run(0, q, out, lse);
  }
  context.trace = nullptr;
  context.progress = nullptr;
  if (!ran.ok()) return ran;
  report.sent_bytes = context.stats.sent_bytes;
  report.skipped_steps = context.stats.skipped_steps;
  report.node_bytes = std::max(impl_->pass_kv.node_bytes(), impl_->pass_q.node_bytes());
  return report;
}

}  // namespace rondo
