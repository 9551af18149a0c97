// One rank from joining the coordinator to leaving it: what main runs on the process's thread (MPI), or on one thread a
// rank (loopback).
#pragma once

#include "worker/rpc/group_client.h"
#include "worker/session/worker_context.h"

namespace rondo {

// Returns when the coordinator ends the epoch, the stream breaks, or the ring fails. Never throws.
Departure RunRank(const WorkerContext& context, const RankIdentity& identity);

}  // namespace rondo
