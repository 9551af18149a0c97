#include "tests/worker/ring/attend_harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/bf16.h"
#include "base/check.h"
#include "base/text.h"

namespace rondo::testing {
namespace {

int64_t QRow(const AttendCase& c) { return int64_t{c.problem.shape.q_heads} * c.problem.shape.head_dim; }
int64_t KvRow(const AttendCase& c) { return int64_t{c.problem.shape.kv_heads} * c.problem.shape.head_dim; }

double Stored(const AttendCase& c, float x) {
  return c.problem.shape.kv_type == KvType::kF32 ? double{x} : double{Bf16ToFloat(FloatToBf16(x))};
}

}  // namespace

void AttendCase::Fill(uint64_t seed) {
  problem.mask.sequence_starts = starts;
  problem.sinks = sinks.empty() ? nullptr : sinks.data();
  problem.shape.score.alibi_slopes = slopes.empty() ? nullptr : slopes.data();
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& to, int64_t size, float factor) {
    to.resize(size);
    for (float& x : to) x = factor * normal(random);
  };
  fill(q, problem.q_tokens * QRow(*this), 2);
  fill(k, problem.kv_tokens * KvRow(*this), 1);
  fill(v, problem.kv_tokens * KvRow(*this), 1);
  const int64_t first = problem.kv_tokens - problem.q_tokens;
  for (int64_t key = 0; key < problem.kv_tokens; ++key) {
    bool seen = false;
    for (int64_t i = problem.q_tokens - 1; i >= 0 && !seen; --i) seen = Sees(*this, first + i, key);
    if (seen) continue;
    std::fill_n(&k[key * KvRow(*this)], KvRow(*this), std::nanf(""));
    std::fill_n(&v[key * KvRow(*this)], KvRow(*this), std::nanf(""));
  }
}

std::string AttendCase::Text() const {
  const RingProblem& p = problem;
  return absl::StrCat(p.q_tokens, " queries on ", p.kv_tokens, " keys, heads ", p.shape.q_heads, ":", p.shape.kv_heads,
                      "x", p.shape.head_dim, " ", Sv(Name(p.shape.kv_type)), p.mask.causal ? " causal" : " full",
                      " window ", p.mask.window, " softcap ", p.shape.score.softcap, slopes.empty() ? "" : " alibi",
                      sinks.empty() ? "" : " sinks", starts.empty() ? "" : " sequences ", absl::StrJoin(starts, ","));
}

bool Sees(const AttendCase& c, int64_t p, int64_t key) {
  const MaskSpec& mask = c.problem.mask;
  if (mask.causal && key > p) return false;
  if (mask.window > 0 && p - key >= mask.window) return false;
  if (mask.window > 0 && !mask.causal && key - p >= mask.window) return false;
  if (c.starts.empty()) return true;
  const auto sequence = [&](int64_t position) {  // -1: before all of them
    int64_t i = -1;
    while (i + 1 < static_cast<int64_t>(c.starts.size()) && c.starts[i + 1] <= position) ++i;
    return i;
  };
  return sequence(p) == sequence(key);
}

ExactAnswer Exact(const AttendCase& c) {
  const RingProblem& p = c.problem;
  const AttentionShape& s = p.shape;
  ExactAnswer answer;
  answer.out.assign(p.q_tokens * QRow(c), 0);
  answer.lse.assign(p.q_tokens * s.q_heads, -std::numeric_limits<double>::infinity());
  const auto factor = static_cast<float>(double{s.scale} * std::log2(std::exp(1.0)));
  std::vector<double> scores(p.kv_tokens);
  for (int64_t i = 0; i < p.q_tokens; ++i) {
    const int64_t position = p.kv_tokens - p.q_tokens + i;
    for (int64_t head = 0; head < s.q_heads; ++head) {
      const int64_t kv_at = head / (s.q_heads / s.kv_heads) * s.head_dim;
      const float* query = &c.q[i * QRow(c) + head * s.head_dim];
      double most = -std::numeric_limits<double>::infinity();
      for (int64_t key = 0; key < p.kv_tokens; ++key) {
        if (!Sees(c, position, key)) continue;
        double dot = 0;
        for (int64_t d = 0; d < s.head_dim; ++d) {
          // With bf16 keys queries are rounded too, once they have the scale and log2(e) in them (docs/ALGORITHMS.md).
          dot += Stored(c, query[d] * factor) * Stored(c, c.k[key * KvRow(c) + kv_at + d]);
        }
        scores[key] = dot * std::log(2.0);
        const double cap = s.score.softcap;
        if (cap > 0) scores[key] = cap * std::tanh(scores[key] / cap);
        if (!c.slopes.empty()) scores[key] -= double{c.slopes[head]} * static_cast<double>(std::abs(key - position));
        most = std::max(most, scores[key]);
      }
      if (!c.sinks.empty()) most = std::max(most, double{c.sinks[head]});
      double sum = c.sinks.empty() ? 0 : std::exp(c.sinks[head] - most);
      double* out = &answer.out[i * QRow(c) + head * s.head_dim];
      for (int64_t key = 0; key < p.kv_tokens; ++key) {
        if (!Sees(c, position, key)) continue;
        const double weight = std::exp(scores[key] - most);
        sum += weight;
        for (int64_t d = 0; d < s.head_dim; ++d) out[d] += weight * Stored(c, c.v[key * KvRow(c) + kv_at + d]);
      }
      if (sum == 0) continue;
      for (int64_t d = 0; d < s.head_dim; ++d) out[d] /= sum;
      answer.lse[i * s.q_heads + head] = most + std::log(sum);
    }
  }
  return answer;
}

AttendAnswer EmptyAnswer(const AttendCase& c) {
  AttendAnswer answer;
  answer.out.assign(c.problem.q_tokens * QRow(c), std::nanf(""));
  answer.lse.assign(c.problem.q_tokens * c.problem.shape.q_heads, std::nanf(""));
  return answer;
}

absl::StatusOr<RingReport> RunRank(const AttendCase& c, Transport& transport, ThreadPool& threads,
                                   const RingRunOptions& options, const std::atomic<bool>& cancelled,
                                   AttendAnswer& answer) {
  absl::StatusOr<std::unique_ptr<RingAttend>> ring = RingAttend::Create(c.problem, *c.kernels, transport, threads);
  if (!ring.ok()) return ring.status();
  for (const PositionRun& run : (*ring)->kv_rows()) {
    const int64_t middle = run.begin + run.size() / 3;  // in two pieces, values before keys
    (*ring)->StoreValues(run.begin, run.size(), &c.v[run.begin * KvRow(c)]);
    (*ring)->StoreKeys(middle, run.end - middle, &c.k[middle * KvRow(c)]);
    (*ring)->StoreKeys(run.begin, middle - run.begin, &c.k[run.begin * KvRow(c)]);
  }
  std::vector<float> q;
  for (const PositionRun& run : (*ring)->q_rows()) {
    q.insert(q.end(), c.q.begin() + run.begin * QRow(c), c.q.begin() + run.end * QRow(c));
  }
  std::vector<float> out(q.size(), std::nanf(""));
  std::vector<float> lse(q.size() / c.problem.shape.head_dim, std::nanf(""));
  absl::StatusOr<RingReport> report = (*ring)->Run(q.data(), out.data(), lse.data(), options, cancelled);
  if (!report.ok()) return report;
  const float* from = out.data();
  const float* lse_from = lse.data();
  for (const PositionRun& run : (*ring)->q_rows()) {
    std::copy_n(from, run.size() * QRow(c), &answer.out[run.begin * QRow(c)]);
    std::copy_n(lse_from, run.size() * c.problem.shape.q_heads, &answer.lse[run.begin * c.problem.shape.q_heads]);
    from += run.size() * QRow(c);
    lse_from += run.size() * c.problem.shape.q_heads;
  }
  return report;
}

AttendAnswer RunOnOneRank(const AttendCase& c) {
  LoopbackHub hub(1);
  const std::unique_ptr<Transport> transport = hub.Connect(0);
  ThreadPool threads(1);
  const std::atomic<bool> never{false};
  AttendAnswer answer = EmptyAnswer(c);
  const absl::StatusOr<RingReport> report = RunRank(c, *transport, threads, {}, never, answer);
  RONDO_CHECK(report.ok());
  return answer;
}

std::string CompareBits(const AttendCase& c, const AttendAnswer& got, const AttendAnswer& want) {
  for (size_t i = 0; i < want.out.size(); ++i) {
    if (std::memcmp(&got.out[i], &want.out[i], sizeof(float)) != 0) {
      return absl::StrCat("out of row ", i / QRow(c), ", element ", i % QRow(c), ": ", got.out[i], " is not ",
                          want.out[i]);
    }
  }
  for (size_t i = 0; i < want.lse.size(); ++i) {
    if (std::memcmp(&got.lse[i], &want.lse[i], sizeof(float)) != 0) {
      return absl::StrCat("lse of row ", i / c.problem.shape.q_heads, ": ", got.lse[i], " is not ", want.lse[i]);
    }
  }
  return "";
}

std::string CompareExact(const AttendCase& c, const AttendAnswer& got, const ExactAnswer& want) {
  // bf16: weights are rounded to 8 bits before they meet values; the sum of weights is not.
  const double tolerance = c.problem.shape.kv_type == KvType::kF32 ? 1e-5 : 2e-2;
  for (size_t i = 0; i < want.out.size(); ++i) {
    if (!(std::abs(got.out[i] - want.out[i]) <= tolerance)) {
      return absl::StrCat("out of row ", i / QRow(c), ", element ", i % QRow(c), ": ", got.out[i], " is not ",
                          want.out[i]);
    }
  }
  for (size_t i = 0; i < want.lse.size(); ++i) {
    if (got.lse[i] == want.lse[i]) continue;  // infinities
    if (!(std::abs(got.lse[i] - want.lse[i]) <= tolerance * (1 + std::abs(want.lse[i])))) {
      return absl::StrCat("lse of row ", i / c.problem.shape.q_heads, ": ", got.lse[i], " is not ", want.lse[i]);
    }
  }
  return "";
}

RankThreads::RankThreads(int world, int compute_threads) : hub_(world) {
  for (int rank = 0; rank < world; ++rank) ranks_.emplace_back([=, this] { Loop(rank, compute_threads); });
}

RankThreads::~RankThreads() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& rank : ranks_) rank.join();
}

void RankThreads::Run(const std::function<void(Transport&, ThreadPool&)>& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  running_ = world();
  ++generation_;
  wake_.notify_all();
  done_.wait(lock, [&] { return running_ == 0; });
}

void RankThreads::Loop(int rank, int compute_threads) {
  const std::unique_ptr<Transport> transport = hub_.Connect(rank);
  ThreadPool threads(compute_threads);
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    const std::function<void(Transport&, ThreadPool&)>& work = *work_;
    lock.unlock();
    work(*transport, threads);
    lock.lock();
    if (--running_ == 0) done_.notify_all();
  }
}

WorldRun RunOnWorld(const AttendCase& c, RankThreads& ranks, const RingRunOptions& options) {
  WorldRun run{EmptyAnswer(c), {}};
  run.reports.assign(ranks.world(), absl::UnknownError("not run"));
  const std::atomic<bool> never{false};
  ranks.Run([&](Transport& transport, ThreadPool& threads) {
    run.reports[transport.rank()] = RunRank(c, transport, threads, options, never, run.answer);
  });
  return run;
}

}  // namespace rondo::testing
