#include "bench/gpu/ranks/rank_job.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/thread_pool.h"
#include "bench/scale/generated_rows.h"
#include "rondo/canonical.h"
#include "rondo/plan.h"
#include "worker/ring/ring_attention.h"

namespace rondo::gpu_check {
namespace {

// A ring step over a few thousand keys takes milliseconds; a card that does not answer for this long is lost.
constexpr absl::Duration kStep = absl::Seconds(60);

int64_t Columns(const RankJob& job, char what) {
  return int64_t{what == 'q' ? job.shape.q_heads : job.shape.kv_heads} * job.shape.head_dim;
}

ShardPlan PlanOf(const RankJob& job, int world) {
  return ShardPlan::Zigzag(job.prompt, world, job.chunk, job.shape.leaf_level);
}

class RankRun {
 public:
  RankRun(const RankJob& job, RingAttention& attention, float* area) : job_(job), attention_(attention), area_(area) {}

  absl::Status Rows(absl::Span<const PositionRun> runs) {
    int64_t count = 0;
    for (const PositionRun& run : runs) count += run.end - run.begin;
    const std::vector<float> q = Tensor('q', runs, count), k = Tensor('k', runs, count), v = Tensor('v', runs, count);
    std::vector<float> out(q.size());
    if (absl::Status ran = attention_.Run(0, runs, q.data(), k.data(), v.data(), out.data()); !ran.ok()) return ran;
    const float* from = out.data();
    for (const PositionRun& run : runs) {
      const int64_t floats = (run.end - run.begin) * job_.row_floats();
      std::copy_n(from, floats, area_ + run.begin * job_.row_floats());
      from += floats;
    }
    return absl::OkStatus();
  }

 private:
  std::vector<float> Tensor(char what, absl::Span<const PositionRun> runs, int64_t count) const {
    const int64_t columns = Columns(job_, what);
    std::vector<float> rows(static_cast<size_t>(count * columns));
    float* to = rows.data();
    for (const PositionRun& run : runs) {
      for (int64_t position = run.begin; position < run.end; ++position, to += columns) {
        RowOfJob(job_, what, position, to);
      }
    }
    return rows;
  }

  const RankJob& job_;
  RingAttention& attention_;
  float* const area_;
};

}  // namespace

void RowOfJob(const RankJob& job, char what, int64_t position, float* to) {
  const GeneratedTensor tensor = what == 'q'   ? GeneratedTensor::kQueries
                                 : what == 'k' ? GeneratedTensor::kKeys
                                               : GeneratedTensor::kValues;
  GenerateRows(job.seed, tensor, position, 1, Columns(job, what), to);
}

int ComputerOf(const RankJob& job, int world, int64_t position) {
  return PlanOf(job, world).Computer(BlockOf(position));
}

absl::Status RunRankJob(const RankJob& job, RankPlace& place, float* area) {
  Transport& transport = place.transport();
  const int world = transport.world_size();
  const ShardPlan plan = PlanOf(job, world);
  absl::StatusOr<SequenceKv> kv =
      SequenceKv::Create(job.shape, 1, plan, transport.rank(), job.tokens(), place.kernels().memory());
  if (!kv.ok()) return kv.status();
  ThreadPool threads(1);
  const std::atomic<bool> never{false};
  RingAttention attention(place.kernels(), transport, threads, *kv, plan, world, {1, kStep, job.strategy}, never);
  RankRun run(job, attention, area);
  for (int64_t chunk = 0; chunk < plan.chunk_count(); ++chunk) {
    attention.BeginPrefill(chunk);
    if (absl::Status ran = run.Rows(plan.Rows(chunk, transport.rank())); !ran.ok()) return ran;
  }
  for (int64_t position = job.prompt; position < job.tokens(); ++position) {
    attention.BeginDecode(position);
    const PositionRun row{position, position + 1};
    if (absl::Status ran = run.Rows({&row, 1}); !ran.ok()) return ran;
  }
  // With cuda-ipc, memory that was sent from stays until everybody has said goodbye.
  return place.Close();
}

}  // namespace rondo::gpu_check
