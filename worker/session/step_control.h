// What rank 0 tells every rank at the head of a step: how the jobs fared in the step before, and which commands to take
// in now. All ranks hold the same list of active jobs in the same order, so a fixed number of bytes says it.
#pragma once

#include <cstdint>
#include <vector>

namespace rondo {

enum class Outcome : uint32_t {
  kContinue = 0,  // a prefill chunk is done, more follow
  kToken = 1,     // `token` was drawn and the job goes on with it
  kFinished = 2,  // the job is over as it should be: stop or length
  kCancelled = 3,
  kFailed = 4,  // the job alone: a logit that is not a number, say
};

struct StepOutcome {
  Outcome kind = Outcome::kContinue;
  int32_t token = 0;
};

// Little-endian on the wire, as it lies in memory: x86-64 only.
struct StepControl {
  static constexpr uint64_t kMagic = 0x3170657473646e72;  // "rndstep1"
  uint64_t magic = kMagic;
  uint64_t step = 0;            // counts steps of the epoch, checked by all
  uint64_t applied_number = 0;  // take in commands up to this one
  uint64_t active_jobs = 0;     // entries that follow; checked by all
};
static_assert(sizeof(StepControl) == 32 && sizeof(StepOutcome) == 8);

}  // namespace rondo
