#include "model/sampler/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/det_math.h"
#include "base/fp_env.h"
#include "model/sampler/philox.h"

namespace rondo {
namespace {

// Below this float temperatures become denormal quotients; no two distinct logits of a model are still a draw apart.
constexpr float kGreedyBelow = 1e-6f;

bool Likelier(absl::Span<const float> logits, int32_t a, int32_t b) {
  return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

// The lowest id of the largest logit.
absl::StatusOr<int32_t> BestToken(absl::Span<const float> logits) {
  float best = -std::numeric_limits<float>::infinity();
  int32_t best_id = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity()) {
      return absl::InvalidArgumentError(
          absl::StrCat("logit of token ", i, " is ", logits[i], ": the model's numbers overflowed"));
    }
    if (logits[i] > best) {
      best = logits[i];
      best_id = static_cast<int32_t>(i);
    }
  }
  if (best_id < 0) return absl::InvalidArgumentError(absl::StrCat("none of ", logits.size(), " logits is finite"));
  return best_id;
}

// Finite logits, likeliest first, at most `top_k` of them where that is set.
std::vector<int32_t> SortedIds(absl::Span<const float> logits, int32_t top_k) {
  std::vector<int32_t> ids;
  ids.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) ids.push_back(static_cast<int32_t>(i));
  }
  const auto likelier = [&](int32_t a, int32_t b) { return Likelier(logits, a, b); };
  if (top_k > 0 && static_cast<size_t>(top_k) < ids.size()) {
    std::nth_element(ids.begin(), ids.begin() + top_k, ids.end(), likelier);
    ids.resize(top_k);
  }
  std::sort(ids.begin(), ids.end(), likelier);
  return ids;
}

// exp((logit - best) / temperature), and their sum from the likeliest down.
double Weigh(absl::Span<const float> logits, double temperature, std::vector<Candidate>* candidates) {
  const double best = logits[candidates->front().id];
  double sum = 0;
  for (Candidate& c : *candidates) {
    c.probability = Exp((static_cast<double>(logits[c.id]) - best) / temperature);
    sum += c.probability;
  }
  return sum;
}

// How many of the sorted candidates reach `top_p` of `sum`, and are at least `min_p` of the first.
size_t Kept(const std::vector<Candidate>& candidates, double sum, double top_p, double min_p) {
  size_t kept = 0;
  double cumulative = 0;
  while (kept < candidates.size()) {
    if (top_p < 1 && kept > 0 && cumulative >= top_p * sum) break;
    if (candidates[kept].probability < min_p * candidates[0].probability) break;
    cumulative += candidates[kept++].probability;
  }
  return kept;
}

absl::Status OutOfRange(const char* name, double value, const char* range) {
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", must be ", range));
}

}  // namespace

// Written so that NaN fails every test.
absl::Status Validate(const SamplingParams& params) {
  if (!(params.temperature >= 0 && params.temperature <= kMaxTemperature)) {
    return OutOfRange("temperature", params.temperature, "in [0, 100]");
  }
  if (params.top_k < 0) return OutOfRange("top_k", params.top_k, "0 (all) or more");
  if (!(params.top_p > 0 && params.top_p <= 1)) return OutOfRange("top_p", params.top_p, "in (0, 1]");
  if (!(params.min_p >= 0 && params.min_p <= 1)) return OutOfRange("min_p", params.min_p, "in [0, 1]");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Candidate>> Candidates(const SamplingParams& params, absl::Span<const float> logits) {
  ScopedComputeFpEnv fp_env;
  if (absl::StatusOr<int32_t> best = BestToken(logits); !best.ok()) return best.status();
  std::vector<Candidate> candidates;
  const std::vector<int32_t> ids = SortedIds(logits, params.top_k);
  candidates.reserve(ids.size());
  for (int32_t id : ids) candidates.push_back({id, 0});
  const double sum = Weigh(logits, 1, &candidates);
  candidates.resize(Kept(candidates, sum, params.top_p, params.min_p));
  const double kept_sum = Weigh(logits, params.temperature, &candidates);
  for (Candidate& c : candidates) c.probability /= kept_sum;
  return candidates;
}

absl::StatusOr<int32_t> Sample(const SamplingParams& params, uint64_t request_number, uint64_t step,
                               absl::Span<const float> logits) {
  ScopedComputeFpEnv fp_env;  // comparisons too: denormal logits are zeros in it
  if (params.temperature < kGreedyBelow) return BestToken(logits);
  absl::StatusOr<std::vector<Candidate>> candidates = Candidates(params, logits);
  if (!candidates.ok()) return candidates.status();
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  const std::array<uint32_t, 4> random = Philox4x32({low(request_number), high(request_number), low(step), high(step)},
                                                    {low(params.seed), high(params.seed)});
  // 53 bits: a uniform double in [0, 1).
  const uint64_t bits = (uint64_t{random[1]} << 32 | random[0]) >> 11;
  const double target = static_cast<double>(bits) * 0x1p-53;
  double cumulative = 0;
  for (const Candidate& c : *candidates) {
    cumulative += c.probability;
    if (cumulative > target) return c.id;
  }
  return candidates->back().id;  // rounding left the sum a little under 1
}

}  // namespace rondo
