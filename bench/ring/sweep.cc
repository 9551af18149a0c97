#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "bench/ring/bench_ranks.h"
#include "kernels/registry.h"
#include "rondo/ring.h"
#include "worker/ring/calibrate.h"

namespace rondo {
namespace {

// One layer by one strategy; microseconds from a common start to this rank's end, the most of all ranks.
double LayerMicroseconds(Transport& t, RingAttend& ring, const std::vector<float>& q, std::vector<float>& out,
                         RingStrategy strategy, uint64_t job) {
  const std::atomic<bool> never{false};
  std::vector<double> times(t.world_size());
  std::vector<absl::Span<std::byte>> parts;
  for (double& time : times) parts.emplace_back(reinterpret_cast<std::byte*>(&time), sizeof(time));
  const absl::Time deadline = absl::Now() + absl::Minutes(2);
  RONDO_CHECK(t.AllGather(parts, deadline).ok());
  const absl::Time start = absl::Now();
  RingRunOptions options;
  options.strategy = strategy;
  options.job = job;
  RONDO_CHECK(ring.Run(q.data(), out.data(), nullptr, options, never).ok());
  times[t.rank()] = absl::ToDoubleMicroseconds(absl::Now() - start);
  RONDO_CHECK(t.AllGather(parts, deadline).ok());
  return *std::max_element(times.begin(), times.end());
}

}  // namespace

void Sweep(Transport& t, const BenchOptions& o) {
  const KernelSet kernels = SelectKernels("").value();
  ThreadPool threads(o.threads);
  const RingRates rates = MeasureRates(*kernels.attention, o.shape, t, threads).value();
  if (t.rank() == 0) {
    std::printf("%d ranks, kernels %s, %d query heads on %d of %d, KV %s; measured %.1f GFLOP/s and %.2f GB/s a rank\n",
                t.world_size(), std::string(kernels.name).c_str(), o.shape.q_heads, o.shape.kv_heads, o.shape.head_dim,
                std::string(Name(o.shape.kv_type)).c_str(), rates.flops * 1e-9, rates.bytes_per_s * 1e-9);
    std::printf("%8s %8s %8s %12s %12s %12s %12s %8s %7s\n", "T", "P", "T/(T+P)", "pass-kv us", "pass-q us",
                "expected kv", "expected q", "pick", "loss %");
  }
  uint64_t job = 0;
  for (int64_t fresh = 16; fresh <= o.tokens; fresh *= 2) {
    RingProblem problem;
    problem.shape = o.shape;
    problem.q_tokens = fresh;
    problem.kv_tokens = o.tokens;
    const std::unique_ptr<RingAttend> ring = RingAttend::Create(problem, *kernels.attention, t, threads).value();
    const std::vector<float> row(size_t{kBlockTokens} * o.shape.kv_heads * o.shape.head_dim, 0.25f);
    for (const PositionRun& run : ring->kv_rows()) {
      for (int64_t begin = run.begin; begin < run.end; begin += kBlockTokens) {
        ring->StoreKeys(begin, std::min(kBlockTokens, run.end - begin), row.data());
        ring->StoreValues(begin, std::min(kBlockTokens, run.end - begin), row.data());
      }
    }
    const size_t floats = TotalRows(ring->q_rows()) * o.shape.q_heads * o.shape.head_dim;
    const std::vector<float> q(floats, 0.5f);
    std::vector<float> out(floats);
    std::vector<double> kv, pq;
    for (int round = 0; round <= o.rounds; ++round) {  // alternating; the first round warms up
      const double kv_us = LayerMicroseconds(t, *ring, q, out, RingStrategy::kPassKv, ++job);
      const double q_us = LayerMicroseconds(t, *ring, q, out, RingStrategy::kPassQ, ++job);
      if (round > 0) kv.push_back(kv_us), pq.push_back(q_us);
    }
    const RingChoice choice = ChooseStrategy(problem, t.world_size(), rates);
    const double kv_us = Median(kv);
    const double q_us = Median(pq);
    const double picked = choice.strategy == RingStrategy::kPassQ ? q_us : kv_us;
    if (t.rank() == 0) {
      std::printf("%8ld %8ld %8.4f %12.0f %12.0f %12.0f %12.0f %8s %7.1f\n", static_cast<long>(fresh),
                  static_cast<long>(o.tokens - fresh), static_cast<double>(fresh) / static_cast<double>(o.tokens),
                  kv_us, q_us, choice.pass_kv_us, choice.pass_q_us, std::string(Name(choice.strategy)).c_str(),
                  100 * (picked / std::min(kv_us, q_us) - 1));
      std::fflush(stdout);
    }
  }
}

}  // namespace rondo
