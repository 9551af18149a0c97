// What the scheduler wants done after an event, in this order: append the records, sync if asked, send the commands,
// stream to the clients. The engine does it; nothing here has an effect of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/core/job.h"

namespace rondo::coordinator {

// Journal records.
struct SubmittedRecord {
  JobSpec spec;
};
struct StartedRecord {
  std::string job_id;
  uint64_t epoch = 0;
  uint32_t earlier_runs = 0;
};
struct TokensRecord {
  std::string job_id;
  uint32_t first_step = 0;
  std::vector<int32_t> tokens;
};
struct ClosedRecord {
  std::string job_id;
  JobState state = JobState::kFinished;
  absl::Status error;
  JobResult result;
};
using Record = std::variant<SubmittedRecord, StartedRecord, TokensRecord, ClosedRecord>;

// Commands to every rank of a group. Leave is not numbered: it ends the epoch.
struct PromptSliceCommand {
  std::string job_id;
  std::shared_ptr<const std::vector<int32_t>> prompt;  // ids [begin, end) of it are sent
  int64_t begin = 0;
  int64_t end = 0;
};
struct StartCommand {
  JobSpec spec;
  uint32_t ring_size = 0;  // resolved: 1..world
};
struct OpenAttentionCommand {
  std::string job_id;
  std::shared_ptr<const AttentionWork> work;
  uint32_t ring_size = 0;  // resolved: 1..world
};
struct RunAttentionCommand {
  std::string job_id;
};
struct CancelCommand {
  std::string job_id;
  std::string reason;
};
struct LeaveCommand {
  std::string reason;
  bool drain = false;
};
struct GroupCommand {
  uint64_t epoch = 0;
  uint64_t number = 0;  // from 1 within the epoch; 0 for Leave
  std::variant<PromptSliceCommand, StartCommand, OpenAttentionCommand, RunAttentionCommand, CancelCommand, LeaveCommand>
      body;
};

// Events for a job's client.
struct AcceptedNote {
  uint64_t prompt_tokens = 0;
  uint32_t queue_position = 0;
};
enum class Phase : uint8_t { kQueued, kPrefill, kRestarting };
struct ProgressNote {
  Phase phase = Phase::kQueued;
  double fraction = 0;
  double tokens_per_s = 0;
  uint64_t eta_us = 0;
  uint32_t queue_position = 0;
  std::string message;
};
struct TokenNote {
  int32_t token = 0;
};
struct LogitsNote {
  uint32_t step = 0;
  uint32_t offset = 0;
  std::string values;
};
struct OpenedNote {  // pieces are taken now
  uint64_t epoch = 0;
  std::vector<std::string> data_addresses;  // by rank of the job
  std::vector<uint64_t> memory_bytes;       // by rank of the job
  int32_t leaf_level = 0;                   // of the group that took it
};
struct RanNote {
  absl::Status error;  // it could not run, and is open as before
  AttentionResult result;
};
struct ClosedNote {  // the last one of every job
  JobState state = JobState::kFinished;
  absl::Status error;
  JobResult result;
};
struct JobNote {
  std::string job_id;
  std::variant<AcceptedNote, ProgressNote, TokenNote, LogitsNote, OpenedNote, RanNote, ClosedNote> body;
};

struct Actions {
  std::vector<Record> append;
  bool must_sync = false;
  std::vector<GroupCommand> send;
  std::vector<JobNote> stream;
  bool drained = false;  // nothing is left to wait for: the process may end
};

}  // namespace rondo::coordinator
