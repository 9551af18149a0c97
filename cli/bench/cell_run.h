// One run of one cell as scale_rank tells it; read by `rondo bench scale`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rondo::cli {

// Microseconds since the barrier at the start of the cell.
struct StepRun {
  double begin_us = 0;
  double posted_us = 0;   // its messages
  double compute_us = 0;  // from begin_us
  double wait_us = 0;     // then, with nothing to compute
  uint64_t sent_bytes = 0;
  bool everybody = false;  // the wait was for all ranks, not for the one before in the ring
  double end_us() const { return begin_us + compute_us + wait_us; }
};

struct RankRun {
  int rank = 0;
  std::string host;
  double seconds = 0;
  double cpu_seconds = 0;
  uint64_t base_bytes = 0;  // resident before the cell's data was made
  uint64_t peak_bytes = 0;
  uint64_t sent_bytes = 0;
  int64_t skipped_steps = 0;
  std::vector<StepRun> steps;
};

struct CellRun {
  int64_t tokens = 0;
  int workers = 0;
  int threads = 0;
  std::string model;  // empty: attention alone
  std::string heads;
  std::string kv_type;
  std::string kernels;
  std::string transport;
  std::string strategy;
  std::string digest;
  double attention_flops = 0;
  double seconds = 0;      // of the slowest rank
  double cpu_seconds = 0;  // of all ranks
  std::vector<RankRun> ranks;
};

// INTERNAL naming the field for anything that is not such an object.
absl::StatusOr<CellRun> ParseCellRun(std::string_view json);

// A wait cut in two: while the rank before it in the ring (or the last of all, where everybody was waited for) had not
// yet posted the step: it is late; and after: the wire. Microseconds.
struct WaitSplit {
  double late_us = 0;
  double transfer_us = 0;
};
WaitSplit SplitWait(const CellRun& run, int rank, size_t step);

}  // namespace rondo::cli
