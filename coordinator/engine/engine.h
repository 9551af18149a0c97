// The thin shell round the pure core: one driver thread feeds events to the scheduler and to the membership, and
// carries out their actions in order (append, sync, send, stream). Services call it from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/membership.h"
#include "coordinator/core/scheduler.h"
#include "coordinator/engine/job_stream.h"
#include "coordinator/engine/model_info.h"
#include "coordinator/engine/rank_link.h"
#include "coordinator/journal/journal.h"
#include "coordinator/journal/records.h"

namespace rondo::coordinator {

struct EngineOptions {
  SchedulerOptions scheduler;
  MembershipOptions membership;
  uint64_t logits_backlog_bytes = 256u << 20;  // of one slow client, before its job is ended
  uint64_t compact_bytes = 64u << 20;          // a journal this long is written anew now and then; 0: never
  std::function<void(bool)> on_serving;        // a group became ready, or the last one was lost; driver thread
};

// The model that new requests meet.
struct CurrentModel {
  std::shared_ptr<const ModelInfo> info;
  std::string bits_key;
};

class Engine {
 public:
  static constexpr std::chrono::milliseconds kTick{20};

  // `journal` may be null. Jobs of `history` are queued again or kept for GetJob.
  Engine(EngineOptions options, std::unique_ptr<Journal> journal, const JobHistory& history);
  ~Engine();  // stops the driver; streams still open are closed with UNAVAILABLE
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  TimeUs Now() const;

  // --- ranks ---
  ConnectionId Connect(std::shared_ptr<RankLink> link);
  void Join(ConnectionId connection, RankHello hello);
  void ModelRead(ConnectionId connection, absl::StatusOr<std::shared_ptr<const ModelInfo>> model);
  // A heartbeat. Of `left_jobs`, those that are still uploading are cancelled.
  void Heard(ConnectionId connection, RankVitals vitals, std::vector<std::string> fed_jobs,
             std::vector<std::string> left_jobs);
  // A job's message; dropped unless `epoch` is the connection's own and still alive.
  void Report(ConnectionId connection, uint64_t epoch, EventBody body);
  void Gone(ConnectionId connection, std::string reason);  // the link is not called after this returns

  // --- clients ---
  uint64_t DrawArrival();
  // Waits for a first group with a model. FAILED_PRECONDITION when the only groups there have none, UNAVAILABLE at the
  // deadline or after the group wait, CANCELLED when `cancelled` says so, RESOURCE_EXHAUSTED if as many wait already as
  // may be queued.
  absl::StatusOr<CurrentModel> WaitForModel(TimeUs deadline, const std::function<bool()>& cancelled);
  std::shared_ptr<JobStream> Submit(JobSpec spec);
  std::shared_ptr<JobStream> FindStream(const std::string& job_id) const;  // null: the job is over
  void Attend(const std::string& job_id);                                  // an attention job's rows are all there
  void Close(const std::string& job_id);                                   // an attention job is no longer wanted
  bool Cancel(const std::string& job_id, const std::string& reason);       // false: it was not active

  struct JobView {
    Job job;
    uint32_t queue_position = 0;
    std::shared_ptr<const ModelInfo> model;  // null if not known (yet)
  };
  std::optional<JobView> FindJob(std::string_view id) const;
  std::vector<JobView> ActiveJobs() const;
  struct ClusterView {
    std::vector<Membership::Group> groups;
    std::map<std::string, std::shared_ptr<const ModelInfo>> models;  // by SHA-256
    uint32_t queued = 0;
    uint32_t running = 0;
    uint32_t queue_limit = 0;
    bool draining = false;
  };
  ClusterView Cluster() const;

  // --- the end ---
  void Drain(int64_t grace_us);
  bool WaitDrained(std::chrono::milliseconds timeout);

 private:
  struct ClosingLink {
    std::shared_ptr<RankLink> link;
    TimeUs kill_at = 0;
  };

  void Post(std::function<void()> task);
  void DriverLoop();
  void Tick();
  void Step(EventBody body);
  void Perform(Actions actions);
  void Perform(const MembershipActions& actions);
  std::vector<std::string> Record(const Actions& actions);  // ids of jobs whose submission could not be kept
  absl::Status CompactNow();
  void CloseLink(ConnectionId connection, const std::function<void(RankLink&)>& last_words);
  std::shared_ptr<const ModelInfo> ModelOf(const std::string& bits_key) const;
  void ChooseModel();  // which model new requests meet; state_mutex_ held

  const EngineOptions options_;
  const int64_t clock_offset_us_;
  // Driver thread.
  std::unique_ptr<Journal> journal_;
  std::optional<CompactionRule> compaction_;  // there with a journal
  bool journal_behind_ = false;               // a record could not be appended
  size_t unrestored_ = 0;                     // jobs of the history that the scheduler does not know yet

  mutable std::mutex state_mutex_;  // held by the driver while the core thinks, by services while they look
  std::condition_variable model_wake_;
  Scheduler scheduler_;
  Membership membership_;
  std::map<ConnectionId, std::shared_ptr<RankLink>> links_;
  std::vector<ClosingLink> closing_;
  std::map<std::string, std::shared_ptr<JobStream>> streams_;
  std::map<std::string, std::shared_ptr<const ModelInfo>> models_;  // by SHA-256
  std::optional<CurrentModel> current_;
  uint32_t model_waiters_ = 0;
  uint64_t last_arrival_ = 0;
  ConnectionId last_connection_ = 0;
  bool serving_ = false;
  bool drained_ = false;
  std::condition_variable drained_wake_;

  std::mutex queue_mutex_;
  std::condition_variable queue_wake_;
  std::deque<std::function<void()>> queue_;
  bool stop_ = false;
  std::thread driver_;
};

}  // namespace rondo::coordinator
