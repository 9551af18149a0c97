#include "tests/worker/ring/ring_harness.h"

#include <cmath>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/bf16.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "worker/ring/ring_attention.h"
#include "worker/transport/loopback_transport.h"

namespace rondo::testing {
namespace {

int64_t RowSize(const RingJob& job) { return int64_t{job.shape.q_heads} * job.shape.head_dim; }
int64_t Total(const RingJob& job) { return job.prompt + job.decode; }
float* OutputRow(const RingJob& job, RingOutput& output, int32_t layer, int64_t position) {
  return output.values.data() + (layer * Total(job) + position) * RowSize(job);
}

void AppendRow(const RingJob& job, char what, int32_t layer, int64_t position, int64_t size, std::vector<float>& to) {
  for (int64_t i = 0; i < size; ++i) to.push_back(RingValue(job, what, layer, position, i));
}

// All layers of one BeginPrefill or BeginDecode.
absl::Status RunLayers(const RingJob& job, Attention& attention, absl::Span<const PositionRun> runs, int64_t& calls,
                       RingOutput& output) {
  const int64_t kv_size = int64_t{job.shape.kv_heads} * job.shape.head_dim;
  for (int32_t layer = 0; layer < job.layers; ++layer) {
    std::vector<float> q, k, v;
    for (const PositionRun& run : runs) {
      for (int64_t p = run.begin; p < run.end; ++p) {
        AppendRow(job, 'q', layer, p, RowSize(job), q);
        AppendRow(job, 'k', layer, p, kv_size, k);
        AppendRow(job, 'v', layer, p, kv_size, v);
      }
    }
    std::vector<float> out(q.size(), std::nanf(""));
    if (job.before_layer) job.before_layer(calls);
    ++calls;
    const absl::Status status = attention.Run(layer, runs, q.data(), k.data(), v.data(), out.data());
    if (!status.ok()) return status;
    const float* from = out.data();
    for (const PositionRun& run : runs) {
      for (int64_t p = run.begin; p < run.end; ++p, from += RowSize(job)) {
        std::copy_n(from, RowSize(job), OutputRow(job, output, layer, p));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

float RingValue(const RingJob& job, char what, int32_t layer, int64_t position, int64_t i) {
  // splitmix64 of the coordinates; four 16-bit uniforms add up to nearly a normal.
  uint64_t z = job.seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(what) * 0xd1342543de82ef95u +
               static_cast<uint64_t>(layer) * 0xaf251af3b0f025b5u +
               static_cast<uint64_t>(position) * 0x2545f4914f6cdd1du + static_cast<uint64_t>(i) * 0xda942042e4dd58b5u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  float sum = 0;
  for (int part = 0; part < 4; ++part) sum += static_cast<float>((z >> (16 * part)) & 0xffff) / 65536.0f - 0.5f;
  return sum * 1.7320508f * (what == 'q' ? 2.0f : 1.0f);
}

absl::StatusOr<RingOutput> RunRingJob(const RingJob& job, Transport& transport, int ring_size,
                                      const std::atomic<bool>& cancelled) {
  const int rank = ring_size == 1 ? 0 : transport.rank();
  const ShardPlan plan = ShardPlan::Zigzag(job.prompt, ring_size, job.chunk, job.shape.leaf_level);
  absl::StatusOr<SequenceKv> kv = SequenceKv::Create(job.shape, job.layers, plan, rank, Total(job), job.kernels->memory());
  if (!kv.ok()) return kv.status();
  ThreadPool threads(job.threads);
  RingAttention attention(*job.kernels, transport, threads, *kv, plan, ring_size,
                          {job.number, job.timeout, job.strategy}, cancelled);
  RingOutput output;
  output.values.assign(job.layers * Total(job) * RowSize(job), 0.0f);
  int64_t calls = 0;
  for (int64_t chunk = 0; chunk < plan.chunk_count(); ++chunk) {
    attention.BeginPrefill(chunk);
    const absl::Status status = RunLayers(job, attention, plan.Rows(chunk, rank), calls, output);
    if (!status.ok()) return status;
  }
  for (int64_t position = job.prompt; position < Total(job); ++position) {
    attention.BeginDecode(position);
    const PositionRun run{position, position + 1};
    const absl::Status status = RunLayers(job, attention, {&run, 1}, calls, output);
    if (!status.ok()) return status;
  }
  output.stats = attention.stats();
  return output;
}

RingOutput RunAlone(const RingJob& job) {
  LoopbackHub hub(1);
  const std::unique_ptr<Transport> transport = hub.Connect(0);
  const std::atomic<bool> cancelled{false};
  absl::StatusOr<RingOutput> output = RunRingJob(job, *transport, 1, cancelled);
  RONDO_CHECK(output.ok());
  return *std::move(output);
}

std::vector<double> Oracle(const RingJob& job, int32_t layer, int64_t position) {
  const AttentionShape& s = job.shape;
  const auto stored = [&](char what, int64_t p, int64_t i) -> double {
    const float x = RingValue(job, what, layer, p, i);
    return s.kv_type == KvType::kF32 ? x : Bf16ToFloat(FloatToBf16(x));
  };
  std::vector<double> out(RowSize(job), 0.0);
  for (int64_t head = 0; head < s.q_heads; ++head) {
    const int64_t kv_head = head / (s.q_heads / s.kv_heads);
    std::vector<double> scores(position + 1, 0.0);
    double most = -1e300;
    for (int64_t p = 0; p <= position; ++p) {
      for (int64_t d = 0; d < s.head_dim; ++d) {
        scores[p] += double{RingValue(job, 'q', layer, position, head * s.head_dim + d)} *
                     stored('k', p, kv_head * s.head_dim + d);
      }
      scores[p] *= double{s.scale};
      most = std::max(most, scores[p]);
    }
    double sum = 0;
    for (int64_t p = 0; p <= position; ++p) {
      const double weight = std::exp(scores[p] - most);
      sum += weight;
      for (int64_t d = 0; d < s.head_dim; ++d) {
        out[head * s.head_dim + d] += weight * stored('v', p, kv_head * s.head_dim + d);
      }
    }
    for (int64_t d = 0; d < s.head_dim; ++d) out[head * s.head_dim + d] /= sum;
  }
  return out;
}

std::string CompareRows(const RingJob& job, int rank, int ring_size, const RingOutput& got, const RingOutput& want) {
  const ShardPlan plan = ShardPlan::Zigzag(job.prompt, ring_size, job.chunk, job.shape.leaf_level);
  for (int32_t layer = 0; layer < job.layers; ++layer) {
    for (int64_t p = 0; p < Total(job); ++p) {
      if (p < job.prompt && plan.Computer(BlockOf(p)) != rank) continue;
      const size_t at = (layer * Total(job) + p) * RowSize(job);
      if (std::memcmp(&got.values[at], &want.values[at], RowSize(job) * sizeof(float)) != 0) {
        return absl::StrCat("layer ", layer, " position ", p, " of rank ", rank, "/", ring_size, ": ", got.values[at],
                            " is not ", want.values[at]);
      }
    }
  }
  return "";
}

}  // namespace rondo::testing
