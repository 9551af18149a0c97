// One rank from joining the coordinator to leaving it: what main runs on the process's thread (MPI), or on one thread a
// rank (loopback).
#pragma once

#include "worker/rpc/group_client.h"
#include "worker/session/worker_context.h"

namespace rondo {

// `data_listen`: where its data server listens for attention jobs. Returns when the coordinator ends the epoch, the
// stream breaks, or the ring fails. Never throws.
Departure RunRank(WorkerContext context, RankIdentity identity, const std::string& data_listen);

}  // namespace rondo
