#include "worker/ring/calibrate.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/aligned.h"

namespace rondo {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);  // a rank may start late
constexpr absl::Duration kComputeTime = absl::Milliseconds(60);
constexpr int64_t kRows = 64;
constexpr int64_t kBlocks = 2;
constexpr size_t kExchangeBytes = size_t{1} << 20;
constexpr int kExchanges = 8;  // the first warms up

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double MeasureFlops(const AttentionKernels& kernels, const AttentionShape& shape, ThreadPool& pool) {
  const size_t row = static_cast<size_t>(shape.q_heads) * shape.head_dim;
  const size_t block_bytes = KvBlockBytes(shape);
  TensorBuffer blocks(kernels.memory());
  blocks.Grow(kBlocks * block_bytes);
  const std::vector<std::byte> zeros(kBlocks * block_bytes);
  blocks.memory().Copy(blocks.data(), zeros.data(), zeros.size());
  const std::vector<float> q(kRows * row, 0.5f);
  std::vector<float> node_floats(kRows * (row + 2 * shape.q_heads));
  std::vector<KvBlock> run;
  for (int64_t b = 0; b < kBlocks; ++b) run.push_back({blocks.data() + b * block_bytes, b, kBlockTokens});
  PartialNode node;
  node.id = DyadicNodes({0, kBlocks}, shape.leaf_level).front();
  node.o = node_floats.data();
  node.m = node.o + kRows * row;
  node.l = node.m + kRows * shape.q_heads;
  const QueryRows queries{q.data(), kBlocks * kBlockTokens - kRows, kRows};
  const MaskSpec all{.causal = false};
  const double flops = 4.0 * static_cast<double>(row) * kRows * kBlocks * kBlockTokens;
  std::vector<double> rates;
  const absl::Time end = absl::Now() + kComputeTime;
  kernels.Attend(shape, queries, run, all, absl::MakeConstSpan(&node, 1), pool);  // warms up
  do {
    const absl::Time start = absl::Now();
    kernels.Attend(shape, queries, run, all, absl::MakeConstSpan(&node, 1), pool);
    rates.push_back(flops / std::max(1e-9, absl::ToDoubleSeconds(absl::Now() - start)));
  } while (absl::Now() < end);
  return Median(std::move(rates));  // not the best: other ranks of this machine are at work in a job too
}

// In the memory that KV blocks travel from and to.
absl::StatusOr<double> MeasureBytesPerSecond(Transport& transport, TensorMemory& memory) {
  const int ranks = transport.world_size();
  const int to = (transport.rank() + 1) % ranks;
  const int from = (transport.rank() + ranks - 1) % ranks;
  TensorBuffer buffer(memory);
  std::byte* const out = buffer.Grow(2 * kExchangeBytes);
  const std::vector<std::byte> zeros(kExchangeBytes);
  memory.Copy(out, zeros.data(), kExchangeBytes);
  std::vector<double> rates;
  for (int i = 0; i < kExchanges; ++i) {
    const absl::Time start = absl::Now();
    const absl::StatusOr<Transport::Pending> pending = transport.SendRecv(
        to, absl::MakeConstSpan(out, kExchangeBytes), from, absl::MakeSpan(out + kExchangeBytes, kExchangeBytes));
    if (!pending.ok()) return pending.status();
    if (const auto got = transport.Wait(*pending, absl::Now() + kTimeout); !got.ok()) return got.status();
    const double seconds = std::max(1e-9, absl::ToDoubleSeconds(absl::Now() - start));
    if (i > 0) rates.push_back(static_cast<double>(kExchangeBytes) / seconds);
  }
  return Median(std::move(rates));
}

}  // namespace

absl::StatusOr<RingRates> MeasureRates(const AttentionKernels& kernels, const AttentionShape& shape,
                                       Transport& transport, ThreadPool& pool) {
  const int ranks = transport.world_size();
  RingRates own;
  own.flops = MeasureFlops(kernels, shape, pool);
  if (ranks == 1) return own;
  absl::StatusOr<double> bytes_per_s = MeasureBytesPerSecond(transport, kernels.memory());
  if (!bytes_per_s.ok()) return bytes_per_s.status();
  own.bytes_per_s = *bytes_per_s;
  std::vector<RingRates> all(ranks);
  all[transport.rank()] = own;
  std::vector<absl::Span<std::byte>> parts;
  for (RingRates& rates : all) parts.emplace_back(reinterpret_cast<std::byte*>(&rates), sizeof(rates));
  if (absl::Status gathered = transport.AllGather(parts, absl::Now() + kTimeout); !gathered.ok()) return gathered;
  for (const RingRates& rates : all) {
    own.flops = std::min(own.flops, rates.flops);
    own.bytes_per_s = std::min(own.bytes_per_s, rates.bytes_per_s);
  }
  return own;
}

}  // namespace rondo
