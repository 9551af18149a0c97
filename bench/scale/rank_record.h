// What one rank saw of a cell, and how the records of all ranks come together on rank 0; used by scale_rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "rondo/transport.h"

namespace rondo {

// Times are since the barrier that starts the cell: hosts' clocks need not agree.
struct StepRecord {
  absl::Duration begin;
  absl::Duration posted;        // when its sends and receives were posted: a peer's wait before that is not the wire's
  absl::Duration compute;       // attending, merging, posting
  absl::Duration exposed_wait;  // then waiting for a peer with nothing to compute
  uint64_t sent_bytes = 0;
  bool everybody = false;  // the wait was for all ranks, not for the one before in the ring
};

struct RankRecord {
  int rank = 0;
  std::string host;
  absl::Duration elapsed;   // from the starting barrier to this rank's last result
  double cpu_seconds = 0;   // of the whole process in that time, the transport's thread included
  uint64_t base_bytes = 0;  // resident before the cell's data was made
  uint64_t peak_bytes = 0;  // VmHWM when the last result was there
  uint64_t sent_bytes = 0;
  int64_t skipped_steps = 0;
  std::vector<StepRecord> steps;
};

nlohmann::ordered_json ToJson(const RankRecord& record);

// Every rank's JSON in rank order on rank 0, nothing on the others. Collective.
absl::StatusOr<std::vector<nlohmann::ordered_json>> GatherJson(Transport& transport, const nlohmann::ordered_json& own);

}  // namespace rondo
