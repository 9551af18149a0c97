// Planted faults for the kill tests: a rank that dies, leaves, throws or freezes at a chosen point.
#pragma once

namespace rondo {

// Counts one visit. With RONDO_FAULT=RANK:KIND:VISIT:MARKER in the environment, the visit with that number on that rank
// does KIND: kill (SIGKILL), exit (_exit(0)), throw, or stop (SIGSTOP); once, for the file MARKER is created first and
// an existing one disarms. Without the variable it costs one branch.
void FaultPoint(int rank);

}  // namespace rondo
