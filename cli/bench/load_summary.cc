#include <algorithm>
#include <cmath>

#include "cli/bench/serve_load.h"

namespace rondo::cli {

double Percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  // The tolerance keeps 90 % of 10 values the 9th, where 0.9 * 10 is a little above 9.
  const double rank = std::ceil(percent / 100 * static_cast<double>(values.size()) - 1e-9);
  const size_t at = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
  return values[std::min(at, values.size() - 1)];
}

LoadSummary Summarise(const LoadResult& result, int64_t prompt_tokens) {
  LoadSummary s;
  s.answered = static_cast<int>(result.requests.size());
  s.failed = static_cast<int>(result.failures.size());
  if (result.requests.empty()) return s;
  std::vector<double> ttft, tpot;
  double begin = result.requests.front().begin_s, end = 0;
  int64_t tokens = 0;
  for (const RequestTimes& r : result.requests) {
    ttft.push_back(r.ttft_s);
    if (r.tokens > 1) tpot.push_back(r.TpotS());
    begin = std::min(begin, r.begin_s);
    end = std::max(end, r.end_s);
    tokens += r.tokens;
  }
  s.seconds = end - begin;
  if (s.seconds > 0) {
    s.requests_per_s = s.answered / s.seconds;
    s.prompt_tokens_per_s = static_cast<double>(s.answered * prompt_tokens) / s.seconds;
    s.answer_tokens_per_s = static_cast<double>(tokens) / s.seconds;
  }
  s.ttft_p50_s = Percentile(ttft, 50), s.ttft_p90_s = Percentile(ttft, 90), s.ttft_p99_s = Percentile(ttft, 99);
  s.tpot_p50_s = Percentile(tpot, 50), s.tpot_p90_s = Percentile(tpot, 90), s.tpot_p99_s = Percentile(tpot, 99);
  return s;
}

}  // namespace rondo::cli
