// Runs the cells of `rondo bench scale`, one process group after the other; used by cmd_bench.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/bench/scale_command.h"
#include "cli/bench/scale_report.h"

namespace rondo::cli {

struct ScaleProgress {
  int round = 0;  // from 0
  int64_t tokens = 0;
  int64_t workers = 0;
  int done = 0;  // cells
  int all = 0;
  double left_s = -1;  // expected; below 0: not yet known
};

// Rounds alternate over the worker counts of one number of tokens, so that a machine that gets slower or faster
// meanwhile does so for all of them. One worker is added where it was not asked for: it says what the bits must be.
// The error of a cell names it and quotes what its rank said last.
absl::StatusOr<std::vector<CellRuns>> RunScaleCells(const ScaleOptions& options, int cores,
                                                    const std::function<void(const ScaleProgress&)>& progress);

// What a cell is expected to cost beside others: quadratic in tokens, divided over the cores that can work on it.
double CellWeight(int64_t tokens, int64_t workers, int threads, int cores);

}  // namespace rondo::cli
