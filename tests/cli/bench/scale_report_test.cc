#include "cli/bench/scale_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/bench/sample_runs.h"

namespace rondo::cli {
namespace {

CellRun Scaled(CellRun run, double seconds, double cpu_seconds) {
  run.seconds = seconds;
  run.cpu_seconds = cpu_seconds;
  return run;
}

std::vector<CellRuns> Sample() { return {{4096, 1, {OneWorker()}}, {4096, 2, {TwoWorkers()}}}; }

TEST(Median, OfOddEvenAndNone) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(Median({}), 0);
}

TEST(ScaleReport, ComparesWithOneWorker) {
  const ScaleReport report = MakeReport(Sample(), 0);
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(report.rows[0].speedup, 1);
  EXPECT_DOUBLE_EQ(report.rows[0].cpu_ratio, 1);
  EXPECT_DOUBLE_EQ(report.rows[1].speedup, 2);
  EXPECT_DOUBLE_EQ(report.rows[1].efficiency, 1);
  EXPECT_DOUBLE_EQ(report.rows[1].cpu_ratio, 1.04);
  EXPECT_DOUBLE_EQ(report.rows[1].cpu_speedup, 1 / 0.54);
  EXPECT_DOUBLE_EQ(report.rows[1].gflops, 4);
  EXPECT_TRUE(report.AllVerified());
}

TEST(ScaleReport, PairsTheRoundsBeforeTheMedian) {
  // The machine gets three times as slow in the second round, and fast in the middle of the third. The medians alone
  // would say 2 / 0.5.
  const std::vector<CellRuns> cells = {
      {4096, 1, {Scaled(OneWorker(), 1, 1), Scaled(OneWorker(), 3, 1), Scaled(OneWorker(), 2, 1)}},
      {4096, 2, {Scaled(TwoWorkers(), 0.5, 1.1), Scaled(TwoWorkers(), 1.5, 1.2), Scaled(TwoWorkers(), 0.4, 1.3)}}};
  const ScaleReport report = MakeReport(cells, 0);
  EXPECT_DOUBLE_EQ(report.rows[1].speedup, 2);
  EXPECT_DOUBLE_EQ(report.rows[1].cpu_ratio, 1.2);
  EXPECT_DOUBLE_EQ(report.rows[1].seconds, 0.5);
  EXPECT_DOUBLE_EQ(report.rows[1].shown.seconds, 0.5);
}

TEST(ScaleReport, SharesOutTheTimeOfAllRanks) {
  const ScaleReport report = MakeReport(Sample(), 0);
  const ScaleRow& row = report.rows[1];
  // Of 2 x 500 ms: 400 + 500 of compute, 50 of the wire, 50 late.
  EXPECT_DOUBLE_EQ(row.shares.compute, 0.9);
  EXPECT_DOUBLE_EQ(row.shares.transfer, 0.05);
  EXPECT_DOUBLE_EQ(row.shares.late, 0.05);
  ASSERT_EQ(row.steps.size(), 2u);
  // Step 0: rank 0 takes 400 ms, rank 1 350.
  EXPECT_DOUBLE_EQ(row.steps[0].mean_us, 375e3);
  EXPECT_DOUBLE_EQ(row.steps[0].shares.compute, 650.0 / 750);
  EXPECT_DOUBLE_EQ(row.steps[0].shares.transfer, 50.0 / 750);
  EXPECT_EQ(row.steps[0].sent_bytes, 22u);
  EXPECT_DOUBLE_EQ(row.steps[1].shares.compute, 1);
}

TEST(ScaleReport, TakesTheLargestRank) {
  const ScaleReport report = MakeReport(Sample(), 0);
  EXPECT_EQ(report.rows[0].peak_bytes, 1100u);
  EXPECT_EQ(report.rows[0].data_bytes, 100u);
  EXPECT_EQ(report.rows[1].peak_bytes, 1060u);
  EXPECT_EQ(report.rows[1].data_bytes, 60u);
  EXPECT_EQ(report.rows[1].sent_bytes, 22u);
}

// Rank 0's record has the whole process's memory and CPU time.
TEST(ScaleReport, OfRanksThatAreThreadsNoSingleRanksFiguresAreKnown) {
  std::vector<CellRuns> cells = Sample();
  for (CellRuns& cell : cells) cell.runs[0].transport = "loopback";
  const ScaleReport report = MakeReport(cells, 0);
  EXPECT_EQ(report.rows[0].peak_bytes, 1100u) << "one worker is the process";
  EXPECT_FALSE(report.rows[1].own_processes);
  EXPECT_EQ(report.rows[1].peak_bytes, 0u);
  EXPECT_EQ(report.rows[1].data_bytes, 0u);
  EXPECT_EQ(report.rows[1].cpu_speedup, 0);
  EXPECT_EQ(report.rows[1].sent_bytes, 22u);
  EXPECT_DOUBLE_EQ(report.rows[1].cpu_ratio, 1.04);
}

TEST(ScaleReport, OneWrongRunIsNotVerified) {
  std::vector<CellRuns> cells = Sample();
  cells[1].runs.push_back(TwoWorkers());
  EXPECT_TRUE(MakeReport(cells, 0).AllVerified());
  cells[1].runs[1].digest = "d2";
  EXPECT_FALSE(MakeReport(cells, 0).rows[1].verified);
  EXPECT_TRUE(MakeReport(cells, 0).rows[0].verified);
  EXPECT_FALSE(MakeReport(cells, 0).AllVerified());
}

TEST(ScaleReport, WithoutOneWorkerNothingIsVerified) {
  EXPECT_FALSE(MakeReport({{4096, 2, {TwoWorkers()}}}, 0).rows[0].verified);
  EXPECT_FALSE(MakeReport({{8192, 1, {OneWorker(8192)}}, {4096, 2, {TwoWorkers()}}}, 0).rows[1].verified);
}

TEST(ScaleReport, BoundsByComputeOrTheLink) {
  // Rank 1 computes 500 ms; at 1,000 bytes/s its 12 bytes take 12 ms; at 20 bytes/s 600.
  EXPECT_DOUBLE_EQ(MakeReport(Sample(), 1000).rows[1].bound_ratio, 1);
  EXPECT_DOUBLE_EQ(MakeReport(Sample(), 20).rows[1].bound_ratio, 0.5 / 0.6);
  EXPECT_EQ(MakeReport(Sample(), 0).rows[1].bound_ratio, 0);
}

TEST(ScaleReport, FitsEveryWorkerCount) {
  CellRun larger = Scaled(OneWorker(8192), 4, 4);
  larger.ranks[0].peak_bytes = 1200;
  const ScaleReport report = MakeReport({{4096, 1, {OneWorker()}}, {4096, 2, {TwoWorkers()}}, {8192, 1, {larger}}}, 0);
  ASSERT_EQ(report.fits.size(), 2u);
  EXPECT_EQ(report.fits[0].workers, 1);
  EXPECT_NEAR(report.fits[0].time->exponent, 2, 1e-12);
  EXPECT_NEAR(report.fits[0].memory->exponent, 1, 1e-12);
  EXPECT_FALSE(report.fits[1].time.has_value());
}

}  // namespace
}  // namespace rondo::cli
