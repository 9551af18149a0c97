// The report of `rondo bench scale` as text and as JSON; pure.
#pragma once

#include <string>

#include "cli/bench/scale_report.h"
#include "cli/json_out.h"

namespace rondo::cli {

// Where and how a benchmark ran: goes into every table, plot and JSON object.
struct BenchFacts {
  std::string machine;  // "AMD EPYC 7B13"
  int cores = 0;
  std::string date;     // 2026-11-29
  std::string command;  // as typed
};

// What the cells were: "attention alone, causal, 8/2x64 heads, KV f32, kernels avx2, pass-kv, 1 thread a worker".
std::string DescribeProblem(const ScaleReport& report);

std::string ScaleTable(const ScaleReport& report);      // one line a cell
std::string ScaleStepTable(const ScaleReport& report);  // one line a ring step of the cells with several workers
std::string ScaleFitLines(const ScaleReport& report);   // "time ~ n^1.98, memory ~ n^0.99 (1 worker)"

Json ScaleJson(const ScaleReport& report, const BenchFacts& facts);

}  // namespace rondo::cli
