#include "cli/bench/scale_report.h"

#include <algorithm>
#include <numeric>

namespace rondo::cli {
namespace {

const CellRuns* FindCell(const std::vector<CellRuns>& cells, int64_t tokens, int workers) {
  for (const CellRuns& cell : cells) {
    if (cell.tokens == tokens && cell.workers == workers) return &cell;
  }
  return nullptr;
}

double MedianOf(const std::vector<CellRun>& runs, double (*value)(const CellRun&)) {
  std::vector<double> values;
  for (const CellRun& run : runs) values.push_back(value(run));
  return Median(std::move(values));
}

using Value = double (*)(const CellRun&);

double Seconds(const CellRun& run) { return run.seconds; }
double CpuSeconds(const CellRun& run) { return run.cpu_seconds; }
double BusiestCpuSeconds(const CellRun& run) {
  double most = 0;
  for (const RankRun& rank : run.ranks) most = std::max(most, rank.cpu_seconds);
  return most;
}

double PairedRatio(const std::vector<CellRun>& a, Value of_a, const std::vector<CellRun>& b, Value of_b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (of_b(b[i]) > 0) ratios.push_back(of_a(a[i]) / of_b(b[i]));
  }
  return Median(std::move(ratios));
}

// The lower middle one by time.
const CellRun& MiddleRun(const std::vector<CellRun>& runs) {
  std::vector<size_t> order(runs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return runs[a].seconds < runs[b].seconds; });
  return runs[order[(order.size() - 1) / 2]];
}

TimeShares Over(const TimeShares& sum, double total) {
  if (!(total > 0)) return {};
  return {sum.compute / total, sum.transfer / total, sum.late / total};
}

void AddStep(const CellRun& run, int rank, size_t step, TimeShares* sum) {
  const WaitSplit split = SplitWait(run, rank, step);
  sum->compute += run.ranks[rank].steps[step].compute_us;
  sum->transfer += split.transfer_us;
  sum->late += split.late_us;
}

std::vector<StepShare> SharesByStep(const CellRun& run) {
  size_t most = 0;
  for (const RankRun& rank : run.ranks) most = std::max(most, rank.steps.size());
  std::vector<StepShare> steps(most);
  for (size_t s = 0; s < most; ++s) {
    TimeShares sum;
    double total = 0;
    int ranks = 0;
    for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
      if (s >= run.ranks[rank].steps.size()) continue;
      AddStep(run, static_cast<int>(rank), s, &sum);
      const StepRun& step = run.ranks[rank].steps[s];
      total += step.compute_us + step.wait_us;
      steps[s].sent_bytes += step.sent_bytes;
      ++ranks;
    }
    steps[s].shares = Over(sum, total);
    steps[s].mean_us = total / ranks;
  }
  return steps;
}

TimeShares SharesOfRun(const CellRun& run) {
  TimeShares sum;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    for (size_t s = 0; s < run.ranks[rank].steps.size(); ++s) AddStep(run, static_cast<int>(rank), s, &sum);
  }
  return Over(sum, run.seconds * 1e6 * static_cast<double>(run.ranks.size()));
}

// No schedule can be faster than its slowest rank's compute, nor than that rank's bytes on its link.
double BoundRatio(const CellRun& run, double link_bytes_per_s) {
  if (!(link_bytes_per_s > 0)) return 0;
  double bound = 0;
  for (const RankRun& rank : run.ranks) {
    double compute_us = 0;
    for (const StepRun& step : rank.steps) compute_us += step.compute_us;
    bound = std::max({bound, compute_us * 1e-6, static_cast<double>(rank.sent_bytes) / link_bytes_per_s});
  }
  return bound > 0 ? run.seconds / bound : 0;
}

ScaleRow MakeRow(const CellRuns& cell, const CellRuns* one, double link_bytes_per_s) {
  ScaleRow row;
  row.tokens = cell.tokens;
  row.workers = cell.workers;
  row.runs = static_cast<int>(cell.runs.size());
  row.shown = MiddleRun(cell.runs);
  row.seconds = MedianOf(cell.runs, Seconds);
  row.cpu_seconds = MedianOf(cell.runs, CpuSeconds);
  row.shares = SharesOfRun(row.shown);
  row.steps = SharesByStep(row.shown);
  row.bound_ratio = BoundRatio(row.shown, link_bytes_per_s);
  row.own_processes = cell.workers == 1 || row.shown.transport != "loopback";
  for (const RankRun& rank : row.shown.ranks) {
    row.sent_bytes += rank.sent_bytes;
    if (!row.own_processes) continue;
    row.peak_bytes = std::max(row.peak_bytes, rank.peak_bytes);
    row.data_bytes = std::max(row.data_bytes, rank.peak_bytes - std::min(rank.peak_bytes, rank.base_bytes));
  }
  if (row.seconds > 0) row.gflops = row.shown.attention_flops / row.seconds * 1e-9;
  if (one == nullptr || one->runs.empty()) return row;
  row.speedup = PairedRatio(one->runs, Seconds, cell.runs, Seconds);
  row.efficiency = row.speedup / row.workers;
  row.cpu_ratio = PairedRatio(cell.runs, CpuSeconds, one->runs, CpuSeconds);
  if (row.own_processes) row.cpu_speedup = PairedRatio(one->runs, CpuSeconds, cell.runs, BusiestCpuSeconds);
  row.verified = std::all_of(cell.runs.begin(), cell.runs.end(),
                             [&](const CellRun& r) { return r.digest == one->runs.front().digest; });
  return row;
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool ScaleReport::AllVerified() const {
  return std::all_of(rows.begin(), rows.end(), [](const ScaleRow& row) { return row.verified; });
}

ScaleReport MakeReport(const std::vector<CellRuns>& cells, double link_bytes_per_s) {
  ScaleReport report;
  std::vector<int> workers;
  for (const CellRuns& cell : cells) {
    if (cell.runs.empty()) continue;
    report.rows.push_back(MakeRow(cell, FindCell(cells, cell.tokens, 1), link_bytes_per_s));
    workers.push_back(cell.workers);
  }
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  for (const int w : workers) {
    std::vector<std::pair<double, double>> time, memory;
    for (const ScaleRow& row : report.rows) {
      if (row.workers != w) continue;
      time.emplace_back(row.tokens, row.seconds);
      memory.emplace_back(row.tokens, static_cast<double>(row.data_bytes));
    }
    report.fits.push_back({w, FitPower(time), FitPower(memory)});
  }
  return report;
}

}  // namespace rondo::cli
