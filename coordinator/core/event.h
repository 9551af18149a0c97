// Everything that can happen to the scheduler. Events carry their time, so the same events give the same actions.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/core/job.h"

namespace rondo::coordinator {

struct SubmitEvent {
  JobSpec spec;
};

// An unfinished job read back from the journal: queued without a new record, not counted against the limit.
struct RestoreEvent {
  JobSpec spec;
  std::vector<int32_t> tokens;
  uint32_t runs = 0;  // how often it had been started
};

struct CancelEvent {
  std::string job_id;
  std::string reason;
};

// The journal could not keep a record of this job, or its client cannot be served: it ends with `status`.
struct AbandonEvent {
  std::string job_id;
  absl::Status status;
};

struct GroupInfo {
  uint64_t epoch = 0;
  std::string bits_key;
  std::vector<uint64_t> kv_memory;          // bytes, by rank
  std::vector<std::string> data_addresses;  // of the ranks' attention data servers, by rank
  uint64_t kv_bytes_per_token = 0;          // all layers
  int64_t prefill_chunk = 0;                // tokens; 0: whole prompt
  int32_t leaf_level = 0;                   // of its kernel family: what is dealt is whole leaves
  std::string kernels;
  std::string compute;
  std::string kv_type;
  uint32_t world() const { return static_cast<uint32_t>(kv_memory.size()); }
};
struct GroupReadyEvent {
  GroupInfo group;
};
struct GroupLostEvent {
  uint64_t epoch = 0;
  std::string reason;
};

// A rank's heartbeat. `progress` only grows, with everything its step loop does.
struct BeatEvent {
  uint64_t epoch = 0;
  uint32_t rank = 0;
  uint64_t applied_number = 0;
  uint64_t progress = 0;
  std::vector<std::string> fed_jobs;  // attention jobs that took rows since the beat before
};

struct ProgressEvent {
  uint64_t epoch = 0;
  std::string job_id;
  double fraction = 0;
};
struct TokenEvent {
  uint64_t epoch = 0;
  std::string job_id;
  uint32_t step = 0;
  int32_t token = 0;
  bool is_end = false;
};
struct LogitsEvent {
  uint64_t epoch = 0;
  std::string job_id;
  uint32_t step = 0;
  uint32_t offset = 0;  // elements
  std::string values;   // float32, little-endian
};
struct EndedEvent {
  uint64_t epoch = 0;
  std::string job_id;
  std::string finish_reason;  // stop | length | cancelled | error
  std::string error;
  int32_t error_code = 0;
  uint64_t prefill_us = 0;
  uint64_t decode_us = 0;
  uint32_t steps = 0;
  std::string digest;
  std::string strategy;
  uint64_t exchanged_bytes = 0;
  std::vector<uint64_t> kv_bytes_per_worker;
};

// Rank 0: every rank has made room for the attention job.
struct OpenedEvent {
  uint64_t epoch = 0;
  std::string job_id;
};
// Its client has put all rows and waits for the result.
struct AttendEvent {
  std::string job_id;
};
// Rank 0: it has run, or (error) could not and is open as before.
struct RanEvent {
  uint64_t epoch = 0;
  std::string job_id;
  absl::Status error;
  AttentionResult result;
};
// Its client has what it wanted.
struct CloseEvent {
  std::string job_id;
};

// No new jobs; running ones may finish until `grace_us` from now.
struct DrainEvent {
  int64_t grace_us = 0;
};
struct TickEvent {};

using EventBody = std::variant<SubmitEvent, RestoreEvent, CancelEvent, AbandonEvent, GroupReadyEvent, GroupLostEvent,
                               BeatEvent, ProgressEvent, TokenEvent, LogitsEvent, EndedEvent, OpenedEvent, AttendEvent,
                               RanEvent, CloseEvent, DrainEvent, TickEvent>;

struct Event {
  TimeUs now = 0;
  EventBody body;
};

}  // namespace rondo::coordinator
