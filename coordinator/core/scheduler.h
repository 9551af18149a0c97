// The coordinator's decisions: which job runs where and when, what its client hears, what the journal keeps. Pure: no
// clock, no I/O, no thread; the engine feeds it events and carries out the actions. Story tests in
// tests/coordinator/stories show every rule as events in, actions out.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/core/action.h"
#include "coordinator/core/event.h"
#include "coordinator/core/job.h"

namespace rondo::coordinator {

// Clients tell a drain from a lost group by these words.
inline constexpr char kShuttingDown[] = "the coordinator is shutting down";

struct SchedulerOptions {
  uint32_t queue_limit = 64;              // queued jobs; one more is refused
  uint32_t max_running = 4;               // jobs at once in one group
  int64_t group_wait_us = 300000000;      // how long a job without a deadline waits for a group
  uint32_t max_restarts = 20;             // a job that keeps killing its group must end some day
  int64_t prompt_slice_ids = 65536;       // ids in one PromptIds command
  uint32_t retained_jobs = 200;           // closed jobs kept for GetJob
  int64_t upload_wait_us = 600000000;     // from an attention job's opening, or its last rows, to Attend
  int64_t attention_keep_us = 600000000;  // from its end to Close
  int64_t stall_timeout_us = 300000000;   // a group with work in which nothing moves is lost after this; 0: never
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerOptions options);

  // Events must come with times that do not go back.
  Actions Step(const Event& event);

  // Queued, running and recently closed jobs; nullptr for others. Valid until the next Step.
  const Job* FindJob(std::string_view id) const;
  // Running jobs, then queued ones in the order they will start.
  std::vector<const Job*> ActiveJobs() const;
  // Retained ones, oldest closing first.
  std::vector<const Job*> ClosedJobs() const;
  uint32_t QueuePosition(std::string_view id) const;  // jobs ahead in the queue; 0 if not queued
  uint32_t queued() const { return static_cast<uint32_t>(queue_.size()); }
  uint32_t running() const;
  bool draining() const { return draining_; }

  // Puts a closed job from the journal among the retained ones.
  void RestoreClosed(Job job);

 private:
  struct Group {
    GroupInfo info;
    uint64_t last_number = 0;
    std::vector<uint64_t> reserved;  // bytes by rank
    // Jobs that hold memory: running, or cancelled and not yet ended.
    struct Occupant {
      std::vector<uint64_t> bytes;  // by rank
      bool attention = false;
    };
    std::map<std::string, Occupant, std::less<>> occupants;
    // Attention jobs do not count: most of the time they wait for their client.
    uint32_t generating() const;
    // As their heartbeats tell. One thread of a rank beats and another computes: a beat alone does not mean progress.
    struct Rank {
      uint64_t applied_number = 0;
      uint64_t progress = 0;
      TimeUs moved = 0;
    };
    std::vector<Rank> ranks;
    TimeUs busy_since = 0;  // there is something to do since; 0: nothing
  };

  void On(const SubmitEvent& e);
  void On(const RestoreEvent& e);
  void On(const CancelEvent& e);
  void On(const AbandonEvent& e);
  void On(const GroupReadyEvent& e);
  void On(const GroupLostEvent& e);
  void On(const BeatEvent& e);
  void On(const ProgressEvent& e);
  void On(const TokenEvent& e);
  void On(const LogitsEvent& e);
  void On(const EndedEvent& e);
  void On(const OpenedEvent& e);
  void On(const AttendEvent& e);
  void On(const RanEvent& e);
  void On(const CloseEvent& e);
  void On(const DrainEvent& e);
  void On(const TickEvent& e);

  // OK, or why no ready group of the job's key can ever run it. OK too when there is no such group.
  absl::Status CheckFits(const JobSpec& spec) const;
  void Enqueue(Job& job);
  void LeaveQueue(const std::string& id);
  void NoteWaiting();
  void StartJobs();
  bool TryStart(Job& job);
  std::vector<uint64_t> Need(Job& job, const GroupInfo& group) const;  // bytes by rank of its ring
  void Start(Job& job, Group& group, uint32_t ring, std::vector<uint64_t> bytes);
  void TellPositions();
  void CheckTimes();
  void CheckAttentionTimes(Job& job);
  // Ends epochs in which a rank is stuck.
  void CheckStalls();
  void NoteBusy();
  bool HasWork(const Group& group) const;
  void CheckDrain();
  void Close(Job& job, JobState state, absl::Status error, JobResult result);
  // Closes a job whatever its state; its group is told to stop.
  void Stop(Job& job, JobState state, absl::Status error, const std::string& reason);
  void Forget();  // closed jobs beyond the retained number
  void Release(Group& group, const std::string& job_id);
  void LoseGroup(uint64_t epoch, const std::string& reason);
  void Send(Group& group, decltype(GroupCommand::body) body);
  void Stream(const std::string& job_id, decltype(JobNote::body) body);
  bool AnyGroupFor(const JobSpec& spec) const;
  void Enter(Job& job, AttentionStage stage);
  Job* RunningJob(uint64_t epoch, const std::string& id);  // nullptr: a message of an old epoch or a closed job
  Job* ActiveJob(const std::string& id);

  const SchedulerOptions options_;
  TimeUs now_ = 0;
  std::map<std::string, Job, std::less<>> jobs_;  // all that are not forgotten
  std::vector<std::string> queue_;                // ids, ascending by arrival
  std::map<uint64_t, Group> groups_;              // ready ones, by epoch
  std::deque<std::string> closed_;                // oldest first
  bool draining_ = false;
  TimeUs drain_until_ = 0;
  Actions out_;
};

}  // namespace rondo::coordinator
