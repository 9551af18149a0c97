#include "tests/testing/session_harness.h"

#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/testing/test_data.h"
#include "tests/testing/tiny_llama.h"
#include "worker/transport/loopback_transport.h"

namespace rondo::testing {

absl::StatusOr<TestModel> LoadTestModel(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const GgufFile>> file = GgufFile::Open(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<LoadedModel> model = LoadModel(*file);
  if (!model.ok()) return model.status();
  absl::StatusOr<std::shared_ptr<const Tokenizer>> tokenizer = Tokenizer::FromGguf(**file);
  if (!tokenizer.ok()) return tokenizer.status();
  return TestModel{std::make_shared<const LoadedModel>(*std::move(model)), *std::move(tokenizer)};
}

absl::StatusOr<TestModel> TinyModel(bool quantised) {
  TinyLlamaOptions options;
  options.quantised = quantised;
  const std::string path = absl::StrCat(TestTempDir(), quantised ? "/tiny-quantised.gguf" : "/tiny.gguf");
  if (absl::Status written = WriteTinyLlama(path, options); !written.ok()) return written;
  return LoadTestModel(path);
}

// Rank 0's sink.
struct SessionGroup::Recorder : public ReportSink {
  explicit Recorder(SessionGroup& group) : group(group) {}
  void Progress(const std::string& job, double fraction) override {
    std::lock_guard lock(group.mutex_);
    group.jobs_[job].progress.push_back(fraction);
    group.changed_.notify_all();
  }
  void Logits(const std::string& job, int64_t, absl::Span<const float> logits) override {
    std::lock_guard lock(group.mutex_);
    group.jobs_[job].logits.emplace_back(logits.begin(), logits.end());
  }
  void Token(const std::string& job, int64_t step, int32_t token, bool is_end) override {
    std::lock_guard lock(group.mutex_);
    JobRecord& record = group.jobs_[job];
    RONDO_CHECK(step == static_cast<int64_t>(record.tokens.size()));
    record.tokens.push_back(token);
    record.is_end.push_back(is_end);
    group.changed_.notify_all();
  }
  void Ended(const JobResult& result) override {
    std::lock_guard lock(group.mutex_);
    JobRecord& record = group.jobs_[result.id];
    ++record.ends;
    record.result = result;
    group.changed_.notify_all();
  }
  void AttentionOpened(const std::string& job) override {
    std::lock_guard lock(group.mutex_);
    group.jobs_[job].opened = true;
    group.changed_.notify_all();
  }
  void AttentionRan(const AttentionFigures& figures) override {
    std::lock_guard lock(group.mutex_);
    group.jobs_[figures.id].runs.push_back(figures);
    group.changed_.notify_all();
  }
  SessionGroup& group;
};

SessionGroup::SessionGroup(const TestModel& model, SessionOptions options) : job_timeout_(options.job_timeout) {
  RONDO_CHECK(options.world >= 1);
  if (options.kernels.empty()) options.kernels.push_back(SelectKernels("").value());
  recorder_ = std::make_unique<Recorder>(*this);
  LoopbackHub hub(options.world);
  for (int r = 0; r < options.world; ++r) {
    auto rank = std::make_unique<Rank>();
    rank->inner = hub.Connect(r);
    if (options.decorate) rank->decorated = options.decorate(r, *rank->inner);
    rank->pool = std::make_unique<ThreadPool>(options.threads, "test-compute");
    rank->context.model = model.model;
    rank->context.tokenizer = model.tokenizer;
    rank->context.attention = &rank->attention;
    rank->context.kernels = options.kernels[r % options.kernels.size()];
    rank->context.compute = options.compute;
    rank->context.kv_type = options.kv_type;
    rank->context.prefill_chunk = options.prefill_chunk;
    rank->context.strategy = options.strategy;
    if (!options.kv_memory.empty()) rank->context.kv_memory_bytes = options.kv_memory.at(r);
    rank->context.available_memory = options.available_memory;
    rank->context.transport = rank->decorated ? rank->decorated.get() : rank->inner.get();
    rank->context.pool = rank->pool.get();
    rank->context.ring_timeout = options.ring_timeout;
    rank->loop = std::make_unique<StepLoop>(rank->context, rank->commands, r == 0 ? recorder_.get() : nullptr);
    ranks_.push_back(std::move(rank));
  }
  for (std::unique_ptr<Rank>& rank : ranks_) {
    rank->thread = std::thread([this, rank = rank.get()] {
      const absl::Status status = rank->loop->Run();
      // As a worker does that leaves: its peers must not wait for it.
      rank->context.transport->Abort(status);
      std::lock_guard lock(mutex_);
      rank->returned = true;
      rank->status = status;
      changed_.notify_all();
    });
  }
}

SessionGroup::~SessionGroup() {
  Stop();
  if (const auto returned = WaitForAllReturned(absl::Minutes(1)); !returned.ok()) {
    std::fprintf(stderr, "%s\n", returned.status().ToString().c_str());
    std::abort();
  }
  for (std::unique_ptr<Rank>& rank : ranks_) rank->thread.join();
}

void SessionGroup::Push(decltype(Command::what) what) {
  const uint64_t number = NextNumber();
  for (int r = 0; r < world(); ++r) PushTo(r, Command{number, what});
}

void SessionGroup::PushTo(int rank, Command command) {
  RONDO_CHECK(ranks_[rank]->commands.Push(std::move(command)).ok());
}

void SessionGroup::FlagCancelled(int rank, const std::string& job) { ranks_[rank]->loop->FlagCancelled(job); }

absl::StatusOr<JobRecord> SessionGroup::WaitForEnd(const std::string& job, std::optional<absl::Duration> timeout) {
  std::unique_lock lock(mutex_);
  const bool settled = changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout.value_or(job_timeout_)),
                                         [&] { return jobs_[job].ends > 0 || ranks_[0]->returned; });
  if (jobs_[job].ends > 0) return jobs_[job];
  if (settled) return absl::AbortedError(absl::StrCat("rank 0 returned: ", ranks_[0]->status.ToString()));
  return absl::DeadlineExceededError(
      absl::StrCat("job ", job, " has not ended; ", jobs_[job].tokens.size(), " tokens so far"));
}

JobRecord SessionGroup::Record(const std::string& job) {
  std::lock_guard lock(mutex_);
  return jobs_[job];
}

bool SessionGroup::WaitFor(const std::string& job, const std::function<bool(const JobRecord&)>& done) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoMilliseconds(job_timeout_), [&] { return done(jobs_[job]); });
}

absl::StatusOr<JobRecord> SessionGroup::RunJob(StartJob start) {
  const std::string id = start.id;
  Push(std::move(start));
  return WaitForEnd(id);
}

absl::StatusOr<std::vector<absl::Status>> SessionGroup::WaitForAllReturned(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  const auto all = [&] {
    for (const std::unique_ptr<Rank>& rank : ranks_) {
      if (!rank->returned) return false;
    }
    return true;
  };
  std::vector<absl::Status> statuses;
  if (changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout), all)) {
    for (const std::unique_ptr<Rank>& rank : ranks_) statuses.push_back(rank->status);
    return statuses;
  }
  std::string running = "still running after the deadline: rank";
  for (int r = 0; r < world(); ++r) {
    if (!ranks_[r]->returned) absl::StrAppend(&running, " ", r);
  }
  return absl::DeadlineExceededError(running);
}

void SessionGroup::Stop() {
  for (std::unique_ptr<Rank>& rank : ranks_) rank->commands.Close(absl::CancelledError("the test is over"));
  for (std::unique_ptr<Rank>& rank : ranks_) rank->context.transport->Abort(absl::CancelledError("the test is over"));
}

}  // namespace rondo::testing
