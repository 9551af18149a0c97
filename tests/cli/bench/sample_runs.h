// Two small rings with hand-made times, for the tests of tables, plots and traces.
#pragma once

#include "cli/bench/scale_report.h"

namespace rondo::cli {

// One worker, one second of compute, 100 bytes of data over 1,000 that were there before.
inline CellRun OneWorker(int64_t tokens = 4096) {
  CellRun run;
  run.tokens = tokens;
  run.workers = 1;
  run.threads = 1;
  run.heads = "8/2x64";
  run.kv_type = "f32";
  run.kernels = "avx2";
  run.transport = "mpi";
  run.strategy = "pass-kv";
  run.digest = "d1";
  run.attention_flops = 2e9;
  run.seconds = 1;
  run.cpu_seconds = 1;
  run.ranks = {{0, "a", 1.0, 1.0, 1000, 1100, 0, 0, {{0, 0, 1e6, 0, 0, false}}}};
  return run;
}

// Two workers, half a second. Rank 0 computes 300 ms and then waits 100 ms, of which rank 1, which posts its second
// step only at 350 ms, is late for 50. Rank 1 never waits.
//
//   ms       0        300  350  400  500
//   rank 0   compute  late wire compute
//   rank 1   compute       compute
inline CellRun TwoWorkers(int64_t tokens = 4096) {
  CellRun run = OneWorker(tokens);
  run.workers = 2;
  run.seconds = 0.5;
  run.cpu_seconds = 1.04;
  run.ranks = {
      {0, "a", 0.5, 0.5, 1000, 1060, 10, 0, {{0, 350e3, 300e3, 100e3, 10, false}, {400e3, 400e3, 100e3, 0, 0, false}}},
      {1, "b", 0.5, 0.54, 1000, 1050, 12, 0, {{0, 350e3, 350e3, 0, 12, false}, {350e3, 350e3, 150e3, 0, 0, false}}},
  };
  return run;
}

}  // namespace rondo::cli
