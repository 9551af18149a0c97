#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "bench/ring/bench_ranks.h"
#include "kernels/registry.h"
#include "worker/ring/ring_attention.h"

namespace rondo {
namespace {

absl::Time Deadline() { return absl::Now() + absl::Seconds(60); }

// Header and payload, as pass-KV sends them; microseconds a step.
double StepMicroseconds(Transport& t, size_t bytes) {
  std::vector<std::byte> send(bytes, std::byte{1}), recv(bytes), header(64), received(64);
  const int to = (t.rank() + 1) % t.world_size();
  const int from = (t.rank() + t.world_size() - 1) % t.world_size();
  std::vector<double> times;
  const int steps = bytes > (8u << 20) ? 5 : 40;
  for (int step = 0; step < steps; ++step) {
    const absl::Time start = absl::Now();
    const auto first = t.SendRecv(to, header, from, absl::MakeSpan(received));
    const auto second = t.SendRecv(to, send, from, absl::MakeSpan(recv));
    RONDO_CHECK(first.ok() && second.ok());
    RONDO_CHECK(t.Wait(*first, Deadline()).ok() && t.Wait(*second, Deadline()).ok());
    times.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  return Median(times);
}

double AllGatherMicroseconds(Transport& t, size_t bytes) {
  std::vector<std::vector<std::byte>> data(t.world_size(), std::vector<std::byte>(bytes));
  std::vector<absl::Span<std::byte>> parts;
  for (std::vector<std::byte>& part : data) parts.push_back(absl::MakeSpan(part));
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const absl::Time start = absl::Now();
    RONDO_CHECK(t.AllGather(parts, Deadline()).ok());
    times.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  return Median(times);
}

// One chunk of `tokens` through four layers of a small model's attention (9 and 3 heads of 64, bf16).
void Prefill(Transport& t, int64_t tokens, bool json) {
  const KernelSet kernels = SelectKernels("").value();
  const AttentionShape shape{.q_heads = 9, .kv_heads = 3, .head_dim = 64, .kv_type = KvType::kBf16, .scale = 0.125f};
  const ShardPlan plan = ShardPlan::Zigzag(tokens, t.world_size(), 0);
  SequenceKv kv = SequenceKv::Create(shape, 4, plan, t.rank(), tokens + 20).value();
  ThreadPool threads(1);
  const std::atomic<bool> never{false};
  RingAttention attention(*kernels.attention, t, threads, kv, plan, t.world_size(), {.job = 1}, never);
  const std::vector<PositionRun> runs = plan.Rows(0, t.rank());
  std::vector<float> q(std::max<int64_t>(1, TotalRows(runs)) * 9 * 64, 0.1f), k(q.size() / 3, 0.2f), v(k), out(q);
  attention.BeginPrefill(0);
  const absl::Time start = absl::Now();
  for (int32_t layer = 0; layer < 4; ++layer) {
    RONDO_CHECK(attention.Run(layer, runs, q.data(), k.data(), v.data(), out.data()).ok());
  }
  const absl::Duration prefill = absl::Now() - start;
  const RingStats after = attention.stats();
  const absl::Time decode_start = absl::Now();
  for (int64_t position = tokens; position < tokens + 20; ++position) {
    attention.BeginDecode(position);
    const PositionRun run{position, position + 1};
    for (int32_t layer = 0; layer < 4; ++layer) {
      RONDO_CHECK(attention.Run(layer, {&run, 1}, q.data(), k.data(), v.data(), out.data()).ok());
    }
  }
  const absl::Duration decode = absl::Now() - decode_start;
  if (t.rank() != 0) return;
  const double decode_us = absl::ToDoubleMicroseconds(decode) / 80;
  if (json) {
    std::printf(R"({"what":"prefill","ranks":%d,"tokens":%ld,"layers":4,"kernels":"%s","us":%.1f,"compute_us":%.1f,)"
                R"("exposed_wait_us":%.1f,"sent_bytes":%llu})"
                "\n"
                R"({"what":"decode","ranks":%d,"us_a_layer":%.1f})"
                "\n",
                t.world_size(), static_cast<long>(tokens), std::string(kernels.name).c_str(),
                absl::ToDoubleMicroseconds(prefill), absl::ToDoubleMicroseconds(after.compute),
                absl::ToDoubleMicroseconds(after.exposed_wait), static_cast<unsigned long long>(after.sent_bytes),
                t.world_size(), decode_us);
    return;
  }
  std::printf(
      "prefill of %ld tokens, 4 layers, kernels %s: %.1f ms, compute %.1f ms, exposed wait %.1f ms (%.1f %%), "
      "%.1f MB sent\n",
      static_cast<long>(tokens), std::string(kernels.name).c_str(), absl::ToDoubleMilliseconds(prefill),
      absl::ToDoubleMilliseconds(after.compute), absl::ToDoubleMilliseconds(after.exposed_wait),
      100 * absl::FDivDuration(after.exposed_wait, prefill), static_cast<double>(after.sent_bytes) * 1e-6);
  std::printf("decode: %.0f us a layer\n", decode_us);
}

}  // namespace

void StepsAndPrefill(Transport& t, const BenchOptions& options) {
  for (const size_t bytes :
       {size_t{64} << 10, size_t{400} << 10, size_t{1} << 20, size_t{4} << 20, size_t{16} << 20, size_t{64} << 20}) {
    const double us = StepMicroseconds(t, bytes);
    if (t.rank() != 0) continue;
    std::printf(options.json ? "{\"what\":\"ring step\",\"kib\":%zu,\"us\":%.1f,\"gb_per_s\":%.3f}\n"
                             : "ring step %6zu KiB: %9.1f us, %6.2f GB/s a rank\n",
                bytes >> 10, us, bytes / us * 1e-3);
  }
  const double us = AllGatherMicroseconds(t, 10 << 10);
  if (t.rank() == 0) {
    std::printf(
        options.json ? "{\"what\":\"all-gather\",\"kib\":10,\"us\":%.1f}\n" : "all-gather of 10 KiB a rank: %.1f us\n",
        us);
  }
  Prefill(t, options.tokens, options.json);
}

}  // namespace rondo
