// How much KV memory a job takes on each rank: the same shard plan the ranks follow, so admission is exact.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/core/event.h"
#include "coordinator/core/job.h"

namespace rondo::coordinator {

// Ranks of `group` that the job runs on.
uint32_t RingSize(const JobSpec& spec, const GroupInfo& group);

// Bytes by rank of the first `ring` ranks of `group` (ring in 1..world). A rank keeps whole canonical blocks of
// prompt + max_tokens tokens. The reference decoder keeps its float64 cache outside that memory: nothing (rank 0 holds
// it against its machine's available memory when the job starts). An attention job takes KV, queries, results and
// buffers.
std::vector<uint64_t> KvBytesByRank(const JobSpec& spec, const GroupInfo& group, uint32_t ring);

}  // namespace rondo::coordinator
