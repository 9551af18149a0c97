// What the runs of `rondo bench scale` come to: medians, speed-ups, shares, fits and the check of the bits; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/cell_run.h"
#include "cli/bench/power_fit.h"

namespace rondo::cli {

// The repeats of one cell. Run i of every cell of the same tokens was made in the same round, so that they can be
// compared pair by pair.
struct CellRuns {
  int64_t tokens = 0;
  int workers = 0;
  std::vector<CellRun> runs;
};

// Where the time of all ranks together went, from 0 to 1. What is left of 1 is a rank that had ended early.
struct TimeShares {
  double compute = 0;
  double transfer = 0;  // exposed: waiting for bytes on the wire
  double late = 0;      // waiting for a peer that was still computing
};

struct StepShare {
  TimeShares shares;  // of this step
  double mean_us = 0;
  uint64_t sent_bytes = 0;  // by all ranks
};

struct ScaleRow {
  int64_t tokens = 0;
  int workers = 0;
  int runs = 0;
  double seconds = 0;     // median
  double speedup = 0;     // median of the rounds' ratios to one worker
  double efficiency = 0;  // speedup / workers
  TimeShares shares;
  uint64_t sent_bytes = 0;    // all ranks
  bool own_processes = true;  // false: ranks are threads, whose memory and CPU time nobody can tell apart; then the
                              // three figures of single ranks are 0, and shown as unknown
  uint64_t peak_bytes = 0;    // of the largest rank
  uint64_t data_bytes = 0;    // of the largest rank, without what was resident before
  double cpu_seconds = 0;     // all ranks, median
  double cpu_ratio = 0;       // median of the rounds' ratios to one worker
  double cpu_speedup = 0;  // one worker's CPU time / the busiest rank's: the speed-up if every rank had a core of its
                           // own and nobody waited; other programs on the machine do not move it
  double gflops = 0;       // useful attention operations a second, all ranks
  double bound_ratio = 0;  // seconds / max(compute, transfer); 0 without a link rate
  bool verified = false;   // every run's digest is that of one worker
  std::vector<StepShare> steps;
  CellRun shown;  // the run whose time is the median: shares, bytes and timeline are its
};

struct ScaleFit {
  int workers = 0;
  std::optional<PowerFit> time;    // seconds over tokens
  std::optional<PowerFit> memory;  // data_bytes over tokens
};

struct ScaleReport {
  std::vector<ScaleRow> rows;
  std::vector<ScaleFit> fits;
  bool AllVerified() const;
};

// `cells` has the cell of one worker for every number of tokens. link_bytes_per_s: of one link, or 0.
ScaleReport MakeReport(const std::vector<CellRuns>& cells, double link_bytes_per_s);

double Median(std::vector<double> values);  // the mean of the middle two of an even number; 0 of none

}  // namespace rondo::cli
