// Planted faults for the kill tests: a rank that dies, leaves, throws, freezes or hangs at a chosen point. Compiled in
// by the CMake option RONDO_FAULT_POINTS alone (presets dev, ci, asan and tsan): what users run has none.
#pragma once

namespace rondo {

// Counts one visit. With RONDO_FAULT=RANK:KIND:VISIT:MARKER in the environment, the visit with that number on that rank
// does KIND: kill (SIGKILL), exit (_exit(0)), throw, stop (SIGSTOP), or hang (this thread alone sleeps for ever); once,
// for the file MARKER is created first and an existing one disarms. Without the variable it costs one branch.
#ifdef RONDO_FAULT_POINTS
void FaultPoint(int rank);
#else
inline void FaultPoint(int) {}
#endif

}  // namespace rondo
