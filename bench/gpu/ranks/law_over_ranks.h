// The law over ranks that are processes: a job has the same bits on one rank and on several; what gpu_check_ranks says,
// in lines as lines.h has them.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "bench/gpu/ranks/rank_job.h"
#include "bench/gpu/ranks/rank_place.h"

namespace rondo::gpu_check {

struct RanksToCheck {
  RankJob job;              // strategy and chunk vary
  std::vector<int> worlds;  // beside one rank
  int devices = 1;          // rank r is on GPU r modulo these
  absl::Duration limit;     // of one run
};

void CheckLawOverRanks(const RanksToCheck& check, const MakePlace& make);

}  // namespace rondo::gpu_check
