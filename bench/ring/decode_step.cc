#include <algorithm>
#include <atomic>
#include <cstdio>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "bench/ring/bench_ranks.h"
#include "kernels/registry.h"
#include "worker/ring/node_plan.h"
#include "worker/ring/ring_attention.h"

namespace rondo {

void DecodeStep(Transport& t, const BenchOptions& o) {
  const KernelSet kernels = SelectKernels("").value();
  ThreadPool threads(o.threads);
  const int ranks = t.world_size();
  const ShardPlan plan = ShardPlan::Zigzag(o.tokens, ranks, 0);
  const int64_t steps = 1 + o.rounds;
  SequenceKv kv = SequenceKv::Create(o.shape, 1, plan, t.rank(), o.tokens + steps).value();
  const size_t kv_row = static_cast<size_t>(o.shape.kv_heads) * o.shape.head_dim;
  const std::vector<float> block(kBlockTokens * kv_row, 0.25f);
  for (const BlockRange& run : plan.OwnedBlocks(o.tokens, t.rank())) {
    for (int64_t b = run.begin; b < run.end; ++b) {
      const PositionRun rows{b * kBlockTokens, std::min(o.tokens, (b + 1) * kBlockTokens)};
      kv.Store(0, absl::MakeConstSpan(&rows, 1), block.data(), block.data());
    }
  }
  const std::atomic<bool> never{false};
  RingAttention attention(*kernels.attention, t, threads, kv, plan, ranks, {.job = 1}, never);
  const std::vector<float> q(static_cast<size_t>(o.shape.q_heads) * o.shape.head_dim, 0.5f);
  std::vector<float> out(q.size());
  std::vector<double> times;
  for (int64_t step = 0; step < steps; ++step) {
    const PositionRun run{o.tokens + step, o.tokens + step + 1};
    attention.BeginDecode(run.begin);
    const absl::Time start = absl::Now();
    RONDO_CHECK(attention.Run(0, absl::MakeConstSpan(&run, 1), q.data(), block.data(), block.data(), out.data()).ok());
    if (step > 0) times.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  if (t.rank() != 0) return;
  size_t complete = 0;  // subtrees of the runs of all ranks
  size_t nodes = 0;
  const int64_t blocks = BlocksFor(o.tokens + 1);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<BlockRange> owned = plan.OwnedBlocks(o.tokens + 1, rank);
    for (const BlockRange& run : owned) complete += DyadicNodes(run, 0).size();
    nodes += OwnNodes(owned, {0, blocks}, 0).size();
  }
  std::printf(
      "%3d ranks, %ld tokens: %9.0f us a layer, %zu nodes exchanged (%zu complete subtrees), %lu bytes sent by "
      "rank 0\n",
      ranks, static_cast<long>(o.tokens), Median(times), ranks == 1 ? 0 : nodes, complete,
      static_cast<unsigned long>(attention.stats().sent_bytes / steps));
}

}  // namespace rondo
