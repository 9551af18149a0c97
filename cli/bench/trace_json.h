// A ring's timeline in the Chrome trace format, for Perfetto or chrome://tracing: one process a rank.
#pragma once

#include <string>

#include "cli/bench/cell_run.h"

namespace rondo::cli {

// {"traceEvents": [...], "displayTimeUnit": "ms"}; slices "compute", "wait for peer" and "transfer" with the step's
// number and bytes, timestamps in microseconds since the start of the cell.
std::string TraceJson(const CellRun& run);

}  // namespace rondo::cli
