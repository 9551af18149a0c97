// What the scheduler knows of a job: its request, what has been drawn so far, how it ended. Plain values shared by the
// scheduler, the journal and the services; prompt ids are shared because they are long and never change.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "rondo/attention_job.h"

namespace rondo::coordinator {

using TimeUs = int64_t;  // microseconds since the Unix epoch, monotone within a process
inline constexpr TimeUs kNoDeadline = 0;

struct SamplingSettings {
  float temperature = 0;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  uint64_t seed = 0;
};

// What makes a job an attention job. Its tensors lie with the ranks and are lost with them, so such a job is not in the
// journal and is not run again: its client opens another.
struct AttentionWork {
  AttentionJobSpec spec;
  std::string token;  // for the ranks' data servers
};

// Of a running attention job.
enum class AttentionStage : uint8_t { kOpening, kUploading, kAttending, kKept };

constexpr const char* Name(AttentionStage stage) {
  constexpr const char* kNames[] = {"opening", "uploading", "attending", "kept"};
  return kNames[static_cast<int>(stage)];
}

// How it ran.
struct AttentionResult {
  uint64_t run_us = 0;
  uint32_t workers = 0;
  std::string strategy;
  std::string strategy_reason;
  double pass_kv_us = 0;
  double pass_q_us = 0;
  uint64_t exchanged_bytes = 0;
  uint64_t skipped_steps = 0;
  std::vector<uint64_t> memory_bytes_per_worker;
  std::string kernels;
};

struct JobSpec {
  std::string id;
  uint64_t arrival = 0;  // place in line: jobs start in this order, whatever order their prompts were tokenised in
  std::shared_ptr<const std::vector<int32_t>> prompt;
  int64_t prompt_tokens = 0;
  uint32_t max_tokens = 0;
  SamplingSettings sampling;
  std::vector<std::string> stops;
  bool want_logits = false;
  uint32_t ring_size = 0;  // 0: all ranks of the group
  std::vector<int32_t> forced_tokens;
  bool reference = false;
  std::shared_ptr<const AttentionWork> attention;  // an attention job; the fields of generate jobs are then unused
  uint64_t request_number = 0;  // counter word of the random stream; part of the request, never of arrival order
  std::string bits_key;         // model, compute mode, KV type, kernel family: only such a group may run it
  TimeUs submitted = 0;
  TimeUs deadline = kNoDeadline;
};

enum class JobState : uint8_t { kQueued, kRunning, kFinished, kFailed, kCancelled };

constexpr const char* Name(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kRunning:
      return "running";
    case JobState::kFinished:
      return "finished";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
  }
  return "";
}

// The figures of a finished job.
struct JobResult {
  std::string finish_reason;  // stop | length | cancelled
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;
  uint64_t ttft_us = 0;
  uint64_t prefill_us = 0;
  uint64_t decode_us = 0;
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  uint32_t workers = 0;
  std::string kernels;
  std::string compute;
  std::string kv_type;
  std::string strategy;
  std::string digest;
  uint64_t exchanged_bytes = 0;
  std::vector<uint64_t> kv_bytes_per_worker;
  uint32_t restarts = 0;
};

// A job with everything that happened to it. Values as of the last Step.
struct Job {
  JobSpec spec;
  JobState state = JobState::kQueued;
  uint64_t epoch = 0;           // the group it runs in; 0 while queued
  std::vector<int32_t> tokens;  // drawn so far, over all runs, without the end id
  uint32_t run_steps = 0;       // steps reported in the present run
  double prefill_fraction = 0;  // of the present run
  TimeUs started = 0;           // of the present run
  TimeUs first_token = 0;       // of any run
  TimeUs waiting_since = 0;     // since when no group could take it; 0: one can
  uint32_t restarts = 0;
  uint32_t told_position = 0;    // the queue position its client heard last
  uint64_t logits_streamed = 0;  // elements of (step, offset) order already passed on: step << 32 | offset end
  absl::Status error;            // of a failed or cancelled job
  JobResult result;              // of a finished or cancelled job
  // What it needs by rank; by ring size, prefill chunk and bytes a token of the group. Slow to work out, and asked for
  // at every step while the job is first in line.
  std::map<std::tuple<uint32_t, int64_t, uint64_t>, std::vector<uint64_t>> need;
  AttentionStage stage = AttentionStage::kOpening;
  TimeUs stage_since = 0;
  AttentionResult attention;  // once it has run
};

}  // namespace rondo::coordinator
