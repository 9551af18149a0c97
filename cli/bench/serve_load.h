// A load on a running coordinator and what its clients saw; used by `rondo bench serve`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rondo::cli {

struct LoadOptions {
  std::string coordinator;
  int clients = 4;    // each sends its next request when the last is answered
  int requests = 16;  // all clients together
  int64_t prompt_tokens = 256;
  int64_t answer_tokens = 32;  // drawn or not, exactly as many are fed: the answer never ends early
  double deadline_s = 600;     // of one request
  uint64_t seed = 1;
};

// One request as its client saw it, seconds.
struct RequestTimes {
  double begin_s = 0;  // since the load began
  double ttft_s = 0;   // from the call to the first token
  double end_s = 0;    // since the load began
  int64_t tokens = 0;  // of the answer
  // Time per output token after the first; 0 for an answer of one.
  double TpotS() const { return tokens > 1 ? (end_s - begin_s - ttft_s) / static_cast<double>(tokens - 1) : 0; }
};

struct LoadResult {
  std::vector<RequestTimes> requests;  // that were answered
  std::vector<std::string> failures;   // one text each
};

// Blocks until every request has been answered or has failed. UNAVAILABLE when nothing listens at the address.
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options);

// The value below which `percent` of the values lie: the nearest rank, ceil(p * n), counted from 1. 0 of none.
double Percentile(std::vector<double> values, double percent);

struct LoadSummary {
  int answered = 0;
  int failed = 0;
  double seconds = 0;  // from the first request to the last answer
  double requests_per_s = 0;
  double prompt_tokens_per_s = 0;
  double answer_tokens_per_s = 0;
  double ttft_p50_s = 0, ttft_p90_s = 0, ttft_p99_s = 0;
  double tpot_p50_s = 0, tpot_p90_s = 0, tpot_p99_s = 0;
};
LoadSummary Summarise(const LoadResult& result, int64_t prompt_tokens);

}  // namespace rondo::cli
