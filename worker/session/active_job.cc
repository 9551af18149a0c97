#include "worker/session/active_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/log.h"
#include "worker/session/fault_point.h"

namespace rondo {
namespace {

// Progress more often than this tells nobody anything.
constexpr int64_t kProgressIntervalUs = 100'000;

int64_t NowUs() { return absl::GetCurrentTimeNanos() / 1000; }

}  // namespace

ActiveJob::ActiveJob(const WorkerContext& context, StartJob start, std::shared_ptr<std::atomic<bool>> cancelled,
                     ReportSink* sink)
    : context_(context),
      start_(std::move(start)),
      cancelled_(std::move(cancelled)),
      sink_(sink),
      detokenizer_(*context.tokenizer, start_.stops) {
  const int world = context_.transport->world_size();
  ring_size_ = start_.ring_size == 0 ? world : std::min(start_.ring_size, world);
  plan_ = ShardPlan::Zigzag(static_cast<int64_t>(start_.prompt.size()), ring_size_, context_.prefill_chunk,
                            context_.kernels.attention->leaf_level());
}

absl::StatusOr<std::unique_ptr<ActiveJob>> ActiveJob::Create(const WorkerContext& context, StartJob start,
                                                             std::shared_ptr<std::atomic<bool>> cancelled,
                                                             uint64_t sequence, uint64_t kv_used_bytes,
                                                             ReportSink* sink) {
  if (start.prompt.empty()) return absl::InternalError(absl::StrCat("job ", start.id, " has an empty prompt"));
  std::unique_ptr<ActiveJob> job(new ActiveJob(context, std::move(start), std::move(cancelled), sink));
  job->started_us_ = NowUs();
  if (!job->takes_part()) return job;
  const ModelConfig& config = context.model->config;
  const AttentionShape shape = ShapeOf(config, *context.kernels.attention, context.kv_type);
  const int64_t tokens = static_cast<int64_t>(job->start_.prompt.size()) + job->start_.max_tokens;
  const int rank = context.transport->rank();
  // The coordinator admits by the same numbers; a rank that was told more than it has says so and does not overcommit.
  if (const uint64_t need = SequenceKv::KvBytes(shape, config.layers, job->plan_, rank, tokens);
      context.kv_memory_bytes > 0 && kv_used_bytes + need > context.kv_memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("KV memory: the job needs ", need, " bytes, other jobs hold ",
                                                     kv_used_bytes, " of ", context.kv_memory_bytes));
  }
  absl::StatusOr<SequenceKv> kv =
      SequenceKv::Create(shape, config.layers, job->plan_, rank, tokens, context.kernels.attention->memory());
  if (!kv.ok()) return kv.status();
  job->kv_.emplace(*std::move(kv));
  RingOptions options;
  options.job = sequence;
  options.wait_timeout = context.ring_timeout;
  options.strategy = context.strategy;
  options.rates = context.rates;
  job->ring_ = std::make_unique<RingAttention>(*context.kernels.attention, *context.transport, *context.pool, *job->kv_,
                                               job->plan_, job->ring_size_, options, *job->cancelled_);
  job->hidden_.resize(config.embedding);
  if (job->leads()) job->logits_.resize(config.vocab);
  return job;
}

int64_t ActiveJob::most_rows() const {
  int64_t most = 1;
  for (int64_t chunk = 0; takes_part() && chunk < plan_.chunk_count(); ++chunk) {
    most = std::max(most, TotalRows(plan_.Rows(chunk, context_.transport->rank())));
  }
  return most;
}

void ActiveJob::ReportProgress(double fraction) {
  const int64_t now = NowUs();
  if (now - last_progress_us_ < kProgressIntervalUs && fraction < 1) return;
  last_progress_us_ = now;
  sink_->Progress(start_.id, fraction);
}

absl::StatusOr<StepOutcome> ActiveJob::Step(Decoder& decoder) {
  const bool prefill = next_chunk_ < plan_.chunk_count();
  const absl::Status ran = prefill ? RunPrefillChunk(decoder) : RunDecode(decoder);
  if (absl::IsCancelled(ran)) return StepOutcome{Outcome::kCancelled, 0};
  if (!ran.ok()) return ran;
  if (next_chunk_ < plan_.chunk_count() || !leads()) return StepOutcome{Outcome::kContinue, 0};
  if (cancelled_->load()) return StepOutcome{Outcome::kCancelled, 0};
  return Draw(decoder);
}

absl::Status ActiveJob::RunPrefillChunk(Decoder& decoder) {
  const int64_t chunk = next_chunk_;
  const std::vector<PositionRun> runs = plan_.Rows(chunk, context_.transport->rank());
  std::vector<int32_t> tokens;
  tokens.reserve(TotalRows(runs));
  for (const PositionRun& run : runs) {
    tokens.insert(tokens.end(), start_.prompt.begin() + run.begin, start_.prompt.begin() + run.end);
  }
  const int64_t embedding = context_.model->config.embedding;
  float* hidden = hidden_rows_.Get(tokens.size() * embedding);
  ring_->BeginPrefill(chunk);
  NoteChoice(chunk);
  const double chunks = static_cast<double>(plan_.chunk_count());
  const double layers = context_.model->config.layers;
  const absl::Status ran = decoder.Forward(RowKind::kGiven, tokens, runs, *ring_, hidden, [&](int32_t layer) {
    FaultPoint(context_.transport->rank());
    if (leads()) ReportProgress((chunk + (layer + 1) / layers) / chunks);
  });
  if (!ran.ok()) return ran;
  ++next_chunk_;
  if (next_chunk_ < plan_.chunk_count()) return absl::OkStatus();

  // The last row of the prompt is on one rank; rank 0 samples from it.
  const int64_t last = static_cast<int64_t>(start_.prompt.size()) - 1;
  const int owner = plan_.Computer(BlockOf(last));
  if (context_.transport->rank() == owner) {
    RONDO_CHECK(!tokens.empty());
    std::memcpy(hidden_.data(), hidden + (tokens.size() - 1) * embedding, embedding * sizeof(float));
  }
  hidden_rows_ = {};  // the rows of a long prompt are not needed for decode
  if (ring_size_ == 1) return absl::OkStatus();
  return context_.transport->Broadcast(
      owner, ring_size_, absl::MakeSpan(reinterpret_cast<std::byte*>(hidden_.data()), hidden_.size() * sizeof(float)),
      absl::Now() + context_.ring_timeout);
}

// Chunks of one job may be computed differently; the summary names what computed the last one, whose prefix is longest.
void ActiveJob::NoteChoice(int64_t chunk) {
  if (ring_size_ == 1) return;
  const RingChoice& choice = ring_->choice();
  if (leads() && (chunk == 0 || choice.strategy != strategy_)) {
    LogInfo("job ", start_.id, " from token ", plan_.Chunk(chunk).begin, " on: ", Name(choice.strategy), ", ",
            choice.reason);
  }
  strategy_ = choice.strategy;
}

absl::Status ActiveJob::RunDecode(Decoder& decoder) {
  const int64_t position = static_cast<int64_t>(start_.prompt.size()) + drawn_ - 1;
  ring_->BeginDecode(position);
  const PositionRun run{position, position + 1};
  return decoder.Forward(RowKind::kDrawn, absl::MakeConstSpan(&last_token_, 1), absl::MakeConstSpan(&run, 1), *ring_,
                         hidden_.data(), [&](int32_t) { FaultPoint(context_.transport->rank()); });
}

StepOutcome ActiveJob::Draw(Decoder& decoder) {
  decoder.Logits(hidden_.data(), 1, logits_.data());
  digest_.Update(logits_.data(), logits_.size() * sizeof(float));
  if (start_.want_logits) sink_->Logits(start_.id, drawn_, logits_);
  if (first_token_us_ == 0) first_token_us_ = NowUs();
  if (drawn_ < static_cast<int64_t>(start_.forced_tokens.size())) return TakeToken(start_.forced_tokens[drawn_]);
  const absl::StatusOr<int32_t> token = Sample(start_.sampling, start_.request_number, drawn_, logits_);
  if (!token.ok()) {
    error_ = token.status();
    return {Outcome::kFailed, 0};
  }
  return TakeToken(*token);
}

StepOutcome ActiveJob::TakeToken(int32_t token) {
  const bool forced = !start_.forced_tokens.empty();
  const bool is_end = !forced && context_.tokenizer->IsEnd(token);
  sink_->Token(start_.id, drawn_, token, is_end);
  ++drawn_;
  if (is_end) {
    finish_reason_ = "stop";
  } else if (forced) {
    if (drawn_ == static_cast<int64_t>(start_.forced_tokens.size())) finish_reason_ = "length";
  } else {
    detokenizer_.Push(token);
    if (detokenizer_.stopped()) {
      finish_reason_ = "stop";
    } else if (drawn_ == start_.max_tokens) {
      finish_reason_ = "length";
    }
  }
  return {finish_reason_.empty() ? Outcome::kToken : Outcome::kFinished, token};
}

void ActiveJob::Apply(const StepOutcome& outcome) {
  if (outcome.kind != Outcome::kToken) return;
  last_token_ = outcome.token;
  if (!leads()) ++drawn_;  // rank 0 counted when it drew
}

absl::Status ActiveJob::Finish(const StepOutcome& outcome) {
  std::vector<uint64_t> shares(size_t{2} * ring_size_);  // [ring_size][sent bytes, KV bytes]
  if (outcome.kind == Outcome::kFinished && takes_part()) {
    const int rank = context_.transport->rank();
    shares[2 * rank] = ring_->stats().sent_bytes;
    shares[2 * rank + 1] = kv_bytes();
    if (ring_size_ > 1) {
      std::vector<absl::Span<std::byte>> parts;
      for (int r = 0; r < ring_size_; ++r) {
        parts.push_back(absl::MakeSpan(reinterpret_cast<std::byte*>(&shares[2 * r]), 16));
      }
      const absl::Status gathered = context_.transport->AllGather(parts, absl::Now() + context_.ring_timeout);
      if (!gathered.ok()) return gathered;
    }
  }
  if (!leads()) return absl::OkStatus();
  JobResult result;
  result.id = start_.id;
  result.finish_reason = outcome.kind == Outcome::kFinished    ? finish_reason_
                         : outcome.kind == Outcome::kCancelled ? "cancelled"
                                                               : "error";
  result.error = error_;
  result.steps = drawn_;
  result.digest = digest_.HexDigest();
  const int64_t now = NowUs();
  result.prefill_us = (first_token_us_ == 0 ? now : first_token_us_) - started_us_;
  result.decode_us = first_token_us_ == 0 ? 0 : now - first_token_us_;
  result.strategy = ring_size_ == 1 ? "local" : std::string(Name(strategy_));
  for (int r = 0; r < ring_size_; ++r) {
    result.exchanged_bytes += shares[2 * r];
    result.kv_bytes_per_worker.push_back(shares[2 * r + 1]);
  }
  sink_->Ended(result);
  return absl::OkStatus();
}

}  // namespace rondo
