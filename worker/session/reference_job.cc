#include "worker/session/reference_job.h"

#include <algorithm>
#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/sha256.h"
#include "model/decoder/reference_decoder.h"

namespace rondo {

namespace {

int64_t StepsOf(const StartJob& start) {
  return start.forced_tokens.empty() ? start.max_tokens : static_cast<int64_t>(start.forced_tokens.size());
}

// Its float64 cache lies outside --kv-memory, which is the ring's, so it is held against what the machine has left.
absl::Status CheckMemory(const WorkerContext& context, const StartJob& start) {
  if (!context.available_memory) return absl::OkStatus();
  const int64_t prompt = static_cast<int64_t>(start.prompt.size());
  const uint64_t need =
      ReferenceDecoder::MemoryBytes(context.model->config, prompt, prompt + StepsOf(start), context.pool->threads());
  const uint64_t have = context.available_memory();
  if (need <= have) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("memory: the float64 reference of ", prompt, " + ", StepsOf(start),
                                                   " tokens needs ", need, " bytes, rank 0's machine has ", have,
                                                   " available"));
}

// To its end, filling `result`.
void Run(const WorkerContext& context, const StartJob& start, const std::atomic<bool>& cancelled, ReportSink& sink,
         JobResult& result) {
  ReferenceDecoder decoder(context.model->config, context.model->weights, *context.pool);
  decoder.Reserve(static_cast<int64_t>(start.prompt.size()) + StepsOf(start));
  const absl::Time started = absl::Now();
  absl::Time first_token = started;
  absl::Time last_report = started;
  Sha256 digest;

  std::vector<int32_t> feed = start.prompt;
  const int64_t steps = StepsOf(start);
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
}

}  // namespace

void RunReferenceJob(const WorkerContext& context, const StartJob& start, const std::atomic<bool>& cancelled,
                     ReportSink& sink) {
  JobResult result;
  result.id = start.id;
  result.strategy = "reference";
  result.kv_bytes_per_worker = {0};
  result.error = CheckMemory(context, start);
  if (result.error.ok()) {
    try {
      Run(context, start, cancelled, sink, result);
    } catch (const std::bad_alloc&) {
      result.error = absl::ResourceExhaustedError("memory: none was left for the float64 reference");
    }
  }
  if (!result.error.ok()) result.finish_reason = "error";
  sink.Ended(result);
}

}  // namespace rondo
