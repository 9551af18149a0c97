// Runs the ranks of a group as processes of their own, forked from this one and joined by SocketTransport; used by
// gpu_check_ranks and by tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rondo/transport.h"

namespace rondo {

using RankWork = std::function<absl::Status(Transport& control)>;

// By rank: empty where `work` returned OK, else its message, or how the process ended. Ranks that are not through after
// `limit` are killed. The caller has one thread, and shares with the ranks what it mapped MAP_SHARED.
std::vector<std::string> RunInProcesses(int world, absl::Duration limit, const RankWork& work);

}  // namespace rondo
