#include "worker/ring/select.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rondo/visible.h"
#include "worker/ring/delivery.h"
#include "worker/ring/pass_kv.h"
#include "worker/ring/pass_q.h"
#include "worker/ring/shares.h"

namespace rondo {
namespace {

// What the rank of the queries does with a float of a node that came home: it is copied, and merged once. Both are
// bound by memory: an estimate of four bytes read twice and written once, in FLOPs of attention from cache.
constexpr double kFlopsPerNodeFloat = 24;

// Every figure is of one layer, for all ranks and steps: compute[r][s] is what rank r computes in step s, sent[r][s]
// what it has on the wire meanwhile.
struct Costs {
  std::vector<std::vector<double>> flops;
  std::vector<std::vector<double>> bytes;
  double home_flops = 0;  // after the last step, on the busiest rank
  double home_bytes = 0;
};

// 2 FLOPs each for q.k and for p.v, an element of a (row, key) pair. The middle row stands for a strip.
double Flops(const AttentionShape& shape, const MaskSpec& mask, const std::vector<Strip>& strips,
             const std::vector<BlockRange>& blocks, int64_t kv_tokens) {
  double pairs = 0;
  for (const Strip& strip : strips) {
    if (strip.visible.empty()) continue;
    const KeyRange keys = VisibleKeys(mask, strip.first_position + strip.count / 2);
    for (const BlockRange& run : blocks) {
      const int64_t begin = std::max(keys.begin, run.begin * kBlockTokens);
      const int64_t end = std::min({keys.end, run.end * kBlockTokens, kv_tokens});
      if (end > begin) pairs += static_cast<double>(end - begin) * static_cast<double>(strip.count);
    }
  }
  return 4.0 * shape.head_dim * shape.q_heads * pairs;
}

// What rank `r` hands on in step s.
double HopBytes(const std::vector<Circulation::Unit>& units, int step) {
  double bytes = 0;
  for (const Circulation::Unit& unit : units) bytes += unit.reach > step ? static_cast<double>(unit.bytes) : 0;
  return bytes;
}

Costs PassKvCosts(const AttentionShape& shape, const MaskSpec& mask, const RingLayout& layout) {
  const int ranks = layout.world();
  const auto units = PassKv::Units(shape, layout);
  Costs costs;
  for (int r = 0; r < ranks; ++r) {
    costs.flops.emplace_back();
    costs.bytes.emplace_back();
    for (int s = 0; s < ranks; ++s) {
      const int origin = (r + ranks - s) % ranks;
      costs.flops[r].push_back(Flops(shape, mask, layout.strips[r], layout.blocks[origin], layout.kv_tokens));
      costs.bytes[r].push_back(HopBytes(units[origin], s));
    }
  }
  return costs;
}

Costs PassQCosts(const AttentionShape& shape, const MaskSpec& mask, const RingLayout& layout) {
  const int ranks = layout.world();
  const auto units = PassQ::Units(shape, layout);
  Costs costs;
  for (int r = 0; r < ranks; ++r) {
    costs.flops.emplace_back();
    costs.bytes.emplace_back();
    double nodes = 0;  // of the step before: under way in this one
    double came = 0;
    for (int s = 0; s < ranks; ++s) {
      const int origin = (r + ranks - s) % ranks;
      costs.flops[r].push_back(Flops(shape, mask, layout.strips[origin], layout.blocks[r], layout.kv_tokens) +
                               came / sizeof(float) * kFlopsPerNodeFloat);
      double kept = 0;  // blocks for ranks that keep them leave in the first step
      for (int to = 0; s == 0 && to < ranks; ++to) {
        kept += static_cast<double>(Delivery::Bytes(shape, layout, r, to));
      }
      costs.bytes[r].push_back(HopBytes(units[origin], s) + nodes + kept);
      nodes = s == 0 ? 0 : static_cast<double>(PassQ::PartialBytes(shape, layout, r, origin));
      came = s == 0 ? 0 : static_cast<double>(PassQ::PartialBytes(shape, layout, (r + s) % ranks, r));
    }
    costs.home_bytes = std::max(costs.home_bytes, nodes);
    costs.home_flops = std::max(costs.home_flops, came / sizeof(float) * kFlopsPerNodeFloat);
  }
  return costs;
}

// Ranks are in step: each step takes as long as its slowest rank, and a rank the longer of its compute and its
// transfer, which overlap. For causal zigzag attention without cached tokens this says what the closed forms say (Yang
// et al., Context Parallelism for Scalable Million-Token Inference, arXiv 2411.01783, which are for non-causal blocks):
// q is lighter on the wire iff T / (T + P) < 2 * kv_heads / q_heads, and pass-KV hides iff T / N >= flops * element
// bytes * kv_heads / (q_heads * bytes_per_s). Summing the real steps also counts nodes that come home, hops that are
// skipped, and ranks without work.
double Microseconds(const Costs& costs, const RingRates& rates) {
  double seconds = costs.home_bytes / rates.bytes_per_s + costs.home_flops / rates.flops;
  for (size_t s = 0; s < costs.flops.size(); ++s) {
    double slowest = 0;
    for (size_t r = 0; r < costs.flops.size(); ++r) {
      slowest = std::max({slowest, costs.flops[r][s] / rates.flops, costs.bytes[r][s] / rates.bytes_per_s});
    }
    seconds += slowest;
  }
  return seconds * 1e6;
}

double MostSent(const Costs& costs) {
  double most = 0;
  for (const std::vector<double>& steps : costs.bytes) {
    double sum = 0;
    for (const double bytes : steps) sum += bytes;
    most = std::max(most, sum);
  }
  return most + costs.home_bytes;
}

// The sum knows compute and wire to some percent, and takes a hidden transfer to be free. Where ranks share the cores
// that copy, it is not: with equal times the lighter strategy is up to half as long again.
constexpr double kCloseCall = 0.05;
bool CloseCall(double a, double b) { return std::abs(a - b) <= kCloseCall * std::max(a, b); }

}  // namespace

RingChoice ChooseFor(const AttentionShape& shape, const MaskSpec& mask, const RingLayout& layout, RingStrategy wanted,
                     const RingRates& rates) {
  RingChoice choice;
  choice.strategy = wanted == RingStrategy::kAuto ? RingStrategy::kPassKv : wanted;
  if (layout.world() == 1) {
    choice.strategy = RingStrategy::kPassKv;  // nothing goes round; it needs less memory
    choice.reason = "one rank";
    return choice;
  }
  if (!(rates.flops > 0) || !(rates.bytes_per_s > 0)) {
    choice.reason = wanted == RingStrategy::kAuto ? "no rates to choose by" : "asked for";
    return choice;
  }
  const Costs kv = PassKvCosts(shape, mask, layout);
  const Costs q = PassQCosts(shape, mask, layout);
  choice.pass_kv_us = Microseconds(kv, rates);
  choice.pass_q_us = Microseconds(q, rates);
  const bool close = CloseCall(choice.pass_kv_us, choice.pass_q_us);
  const bool queries = close ? MostSent(q) < MostSent(kv) : choice.pass_q_us < choice.pass_kv_us;
  if (wanted == RingStrategy::kAuto && queries) choice.strategy = RingStrategy::kPassQ;
  choice.reason = absl::StrFormat(
      "%s: a layer takes pass-kv %.0f us and pass-q %.0f us, with at most %.0f and %.0f bytes from a rank, at %.3g "
      "FLOP/s and %.3g bytes/s",
      wanted != RingStrategy::kAuto ? "asked for"
      : close                       ? "close, so the one that sends less"
                                    : "expected",
      choice.pass_kv_us, choice.pass_q_us, MostSent(kv), MostSent(q), rates.flops, rates.bytes_per_s);
  return choice;
}

RingChoice ChooseStrategy(const RingProblem& problem, int world, const RingRates& rates) {
  return ChooseFor(problem.shape, problem.mask, ProblemLayout(problem, PlanShares(problem, world)), RingStrategy::kAuto,
                   rates);
}

}  // namespace rondo
