#include "worker/session/reference_job.h"

#include <algorithm>
#include <vector>

#include "absl/time/clock.h"
#include "base/sha256.h"
#include "model/decoder/reference_decoder.h"

namespace rondo {

void RunReferenceJob(const WorkerContext& context, const StartJob& start, const std::atomic<bool>& cancelled,
                     ReportSink& sink) {
  ReferenceDecoder decoder(context.model->config, context.model->weights, *context.pool);
  const absl::Time started = absl::Now();
  absl::Time first_token = started;
  absl::Time last_report = started;
  Sha256 digest;
  JobResult result;
  result.id = start.id;
  result.strategy = "reference";
  result.kv_bytes_per_worker = {0};

  std::vector<int32_t> feed = start.prompt;
  const int64_t steps =
      start.forced_tokens.empty() ? start.max_tokens : static_cast<int64_t>(start.forced_tokens.size());
  result.finish_reason = "length";
  for (int64_t step = 0; step < steps; ++step) {
    const std::vector<double> exact = decoder.Append(feed, [&](double fraction) {
      if (step == 0 && absl::Now() - last_report > absl::Milliseconds(200)) {
        last_report = absl::Now();
        sink.Progress(start.id, fraction);
      }
      return !cancelled.load();
    });
    if (cancelled.load()) {
      result.finish_reason = "cancelled";
      break;
    }
    if (step == 0) first_token = absl::Now();
    const std::vector<float> logits(exact.begin(), exact.end());
    digest.Update(logits.data(), logits.size() * sizeof(float));
    if (start.want_logits) sink.Logits(start.id, step, logits);
    const int32_t token = start.forced_tokens.empty()
                              ? static_cast<int32_t>(std::max_element(exact.begin(), exact.end()) - exact.begin())
                              : start.forced_tokens[step];
    const bool is_end = start.forced_tokens.empty() && context.tokenizer->IsEnd(token);
    sink.Token(start.id, step, token, is_end);
    ++result.steps;
    if (is_end) {
      result.finish_reason = "stop";
      break;
    }
    feed = {token};
  }
  result.digest = digest.HexDigest();
  result.prefill_us = absl::ToInt64Microseconds(first_token - started);
  result.decode_us = absl::ToInt64Microseconds(absl::Now() - first_token);
  sink.Ended(result);
}

}  // namespace rondo
