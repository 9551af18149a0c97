// What the coordinator tells a rank, as plain values: made from messages by worker/rpc (or by tests), taken in by the
// step loop in the order of their numbers.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "model/sampler/sampler.h"
#include "rondo/attention_job.h"

namespace rondo {

struct StartJob {
  std::string id;
  std::vector<int32_t> prompt;
  int64_t max_tokens = 0;
  SamplingParams sampling;
  std::vector<std::string> stops;
  bool want_logits = false;
  int ring_size = 0;                   // ranks [0, ring_size) take part; 0: all
  std::vector<int32_t> forced_tokens;  // fed instead of sampled ones; the job ends after them
  bool reference = false;              // float64 reference decoder on rank 0
  uint64_t request_number = 0;
};

// Makes room for an attention job and takes its pieces from then on.
struct OpenAttention {
  std::string id;
  std::string token;  // what data calls must show
  AttentionJobSpec spec;
  int ring_size = 0;  // ranks [0, ring_size) take part; 0: all
};

struct RunAttention {
  std::string id;
};

// Ends a job of either kind, at any stage.
struct CancelJob {
  std::string id;
  std::string reason;
};

// A number that was spent on something the step loop need not know, such as a slice of a prompt.
struct NoCommand {};

struct Command {
  uint64_t number = 0;  // from 1, the same on every rank
  std::variant<NoCommand, StartJob, CancelJob, OpenAttention, RunAttention> what;
};

}  // namespace rondo
