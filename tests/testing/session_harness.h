// A whole group in one process: every rank a thread with its own step loop over the loopback transport, told what to do
// by the test instead of a coordinator; used by the law, cancellation and session tests.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/session/attention_store.h"
#include "worker/session/step_loop.h"

namespace rondo::testing {

struct TestModel {
  std::shared_ptr<const LoadedModel> model;
  std::shared_ptr<const Tokenizer> tokenizer;
};
absl::StatusOr<TestModel> LoadTestModel(const std::string& path);
// WriteTinyLlama's model with its defaults.
absl::StatusOr<TestModel> TinyModel(bool quantised);

struct SessionOptions {
  int world = 1;
  int threads = 1;            // of each rank
  int64_t prefill_chunk = 0;  // 0: whole
  ComputeMode compute = ComputeMode::kF32;
  KvType kv_type = KvType::kF32;
  RingStrategy strategy = RingStrategy::kAuto;  // without rates: pass-KV
  std::vector<uint64_t> kv_memory;              // bytes, rank r has kv_memory[r]; empty: no limit
  std::vector<KernelSet> kernels;               // rank r runs kernels[r % size()]; empty: the host's best
  absl::Duration ring_timeout = absl::Minutes(2);
  absl::Duration job_timeout = absl::Minutes(5);  // of WaitForEnd, where it is not told
  std::function<uint64_t()> available_memory;     // what ranks see of the machine's; empty: not asked
  // What rank `rank` uses instead of `inner`, which outlives it. Null: `inner` itself.
  std::function<std::unique_ptr<Transport>(int rank, Transport& inner)> decorate;
};

// Everything rank 0 said about one job.
struct JobRecord {
  std::vector<int32_t> tokens;
  std::vector<bool> is_end;
  std::vector<std::vector<float>> logits;
  std::vector<double> progress;
  int ends = 0;  // calls of Ended: more than 1 is a bug
  JobResult result;
  bool opened = false;  // attention jobs
  std::vector<AttentionFigures> runs;
};

class SessionGroup {
 public:
  SessionGroup(const TestModel& model, SessionOptions options);
  // Stops the group; a rank that does not come back within a minute ends the process, for its thread cannot be joined.
  ~SessionGroup();
  SessionGroup(const SessionGroup&) = delete;
  SessionGroup& operator=(const SessionGroup&) = delete;

  // Gives every rank the next command. One thread.
  void Push(decltype(Command::what) what);
  // The same in two parts, so that commands reach the ranks at different times: number first, then each rank once.
  uint64_t NextNumber() { return ++last_number_; }
  void PushTo(int rank, Command command);
  void FlagCancelled(int rank, const std::string& job);

  // What became of the job; DEADLINE_EXCEEDED, or the error that ended rank 0 before the job.
  absl::StatusOr<JobRecord> WaitForEnd(const std::string& job, std::optional<absl::Duration> timeout = std::nullopt);
  // Push and WaitForEnd.
  absl::StatusOr<JobRecord> RunJob(StartJob start);

  // What StepLoop::Run returned on every rank; DEADLINE_EXCEEDED naming the ranks that are still running.
  absl::StatusOr<std::vector<absl::Status>> WaitForAllReturned(absl::Duration timeout);
  // Closes the queues and aborts the transports: every Run returns.
  void Stop();

  AttentionStore& attention(int rank) { return ranks_[rank]->attention; }
  // Rank 0's reports so far.
  JobRecord Record(const std::string& job);
  // Waits until `done` holds for what rank 0 has reported of the job; false after the job timeout.
  bool WaitFor(const std::string& job, const std::function<bool(const JobRecord&)>& done);
  StepLoop& loop(int rank) { return *ranks_[rank]->loop; }
  Transport& transport(int rank) { return *ranks_[rank]->context.transport; }
  int world() const { return static_cast<int>(ranks_.size()); }

 private:
  struct Recorder;
  struct Rank {
    std::unique_ptr<Transport> inner, decorated;
    std::unique_ptr<ThreadPool> pool;
    WorkerContext context;
    AttentionStore attention;
    CommandQueue commands;
    std::unique_ptr<StepLoop> loop;
    std::thread thread;
    bool returned = false;  // mutex_
    absl::Status status;    // mutex_
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, JobRecord> jobs_;  // mutex_
  std::unique_ptr<Recorder> recorder_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  absl::Duration job_timeout_;
  uint64_t last_number_ = 0;
};

}  // namespace rondo::testing
