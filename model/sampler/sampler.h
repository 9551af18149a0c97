// Draws the next token from a row of logits; used by the rank that samples and by the local benchmark.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rondo {

// The defaults are greedy decoding.
struct SamplingParams {
  float temperature = 0;  // 0: greedy, the rest is ignored
  int32_t top_k = 0;      // keep the k likeliest; 0: all
  float top_p = 1;        // keep the shortest prefix of the sorted probabilities that reaches p; 1: all
  float min_p = 0;        // keep probabilities of at least min_p times the largest; 0: all
  uint64_t seed = 0;
};

// Above this every draw is uniform for any purpose, and logit / temperature stays far from denormal.
inline constexpr float kMaxTemperature = 100;

// INVALID_ARGUMENT naming the parameter and its range.
absl::Status Validate(const SamplingParams& params);

struct Candidate {
  int32_t id = 0;
  double probability = 0;
};

// What a draw chooses from: probability descending, id ascending, summing to 1. The filters work on the softmax of
// the raw logits in the order top-k, top-p, min-p; temperature comes last. `params` is valid with temperature > 0.
// INVALID_ARGUMENT naming the token of a NaN or +infinite logit, or when every logit is -infinity.
absl::StatusOr<std::vector<Candidate>> Candidates(const SamplingParams& params, absl::Span<const float> logits);

// The token of step `step` of request `request_number`: a function of its arguments alone, the same on every machine.
// Ties go to the lowest id, greedy or not. `params` is valid. Errors as Candidates. Any thread.
absl::StatusOr<int32_t> Sample(const SamplingParams& params, uint64_t request_number, uint64_t step,
                               absl::Span<const float> logits);

}  // namespace rondo
