// When a job must be over, from the deadline of its call; used by the services that submit jobs.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>

#include "coordinator/core/job.h"

namespace rondo::coordinator {

// A little before the call's deadline, so that the client hears the coordinator's reason and not its own timer: a
// twentieth of what is left, at most 200 ms.
inline TimeUs JobDeadline(const grpc::ServerContextBase& context, TimeUs now) {
  if (context.deadline() == std::chrono::system_clock::time_point::max()) return kNoDeadline;
  const auto left =
      std::chrono::duration_cast<std::chrono::microseconds>(context.deadline() - std::chrono::system_clock::now());
  // Clients say "none" with dates centuries ahead.
  if (left > std::chrono::hours(24 * 365 * 10)) return kNoDeadline;
  return now + left.count() - std::clamp<int64_t>(left.count() / 20, 0, 200000);
}

}  // namespace rondo::coordinator
