// The benchmarks under `rondo bench`, one file each; cmd_bench.cc puts them together.
#pragma once

#include "CLI/CLI.hpp"
#include "cli/commands.h"

namespace rondo::cli {

void AddBenchScaleCommand(CLI::App& bench, RunCommand* run);
void AddBenchProgramCommands(CLI::App& bench, RunCommand* run);  // attention, matmul, decode, ring
void AddBenchServeCommand(CLI::App& bench, RunCommand* run);

}  // namespace rondo::cli
