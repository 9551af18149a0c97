// Whether a job can start is one answer for the whole group: every rank tells the others how it fared in making ready,
// and all drop the job if any could not. Used by the step loop, once for each job.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rondo/transport.h"

namespace rondo {

struct StartVerdict {
  int rank = -1;     // the lowest one that could not start the job; -1: all could
  absl::Status why;  // what it said, its name in front; cut at about 200 bytes
  bool ok() const { return rank < 0; }
};

// All ranks of the group call, each with its own status; all get the same verdict. An error is the transport's.
absl::StatusOr<StartVerdict> AgreeOnStart(Transport& transport, const absl::Status& mine, absl::Time deadline);

}  // namespace rondo
