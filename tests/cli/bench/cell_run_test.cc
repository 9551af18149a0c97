#include "cli/bench/cell_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/bench/sample_runs.h"

namespace rondo::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kRun[] = R"({"tokens":256,"workers":2,"threads":3,"model":"m","heads":"4/2x8","kv_type":"bf16",
  "kernels":"avx2","transport":"mpi","strategy":"pass-q","digest":"ab","attention_flops":5,"seconds":0.25,
  "cpu_seconds":0.5,"ranks":[
  {"rank":0,"host":"x","seconds":0.25,"cpu_seconds":0.2,"base_bytes":7,"peak_bytes":9,"sent_bytes":11,
   "skipped_steps":1,"steps":[{"begin_us":1,"posted_us":2,"compute_us":3,"wait_us":4,"sent_bytes":5,
   "everybody":true}]},
  {"rank":1,"host":"y","seconds":0.2,"cpu_seconds":0.3,"base_bytes":7,"peak_bytes":8,"sent_bytes":0,
   "skipped_steps":0,"steps":[]}]})";

TEST(CellRun, ReadsEveryField) {
  const auto run = ParseCellRun(kRun);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->tokens, 256);
  EXPECT_EQ(run->threads, 3);
  EXPECT_EQ(run->model, "m");
  EXPECT_EQ(run->heads, "4/2x8");
  EXPECT_EQ(run->kv_type, "bf16");
  EXPECT_EQ(run->strategy, "pass-q");
  EXPECT_EQ(run->digest, "ab");
  EXPECT_EQ(run->attention_flops, 5);
  EXPECT_EQ(run->seconds, 0.25);
  EXPECT_EQ(run->cpu_seconds, 0.5);
  ASSERT_EQ(run->ranks.size(), 2u);
  EXPECT_EQ(run->ranks[0].host, "x");
  EXPECT_EQ(run->ranks[0].base_bytes, 7u);
  EXPECT_EQ(run->ranks[0].peak_bytes, 9u);
  EXPECT_EQ(run->ranks[0].sent_bytes, 11u);
  EXPECT_EQ(run->ranks[0].skipped_steps, 1);
  ASSERT_EQ(run->ranks[0].steps.size(), 1u);
  EXPECT_EQ(run->ranks[0].steps[0].posted_us, 2);
  EXPECT_EQ(run->ranks[0].steps[0].end_us(), 8);
  EXPECT_EQ(run->ranks[0].steps[0].sent_bytes, 5u);
  EXPECT_TRUE(run->ranks[0].steps[0].everybody);
}

TEST(CellRun, RefusesWhatIsNone) {
  EXPECT_FALSE(ParseCellRun("").ok());
  EXPECT_FALSE(ParseCellRun("[]").ok());
  EXPECT_THAT(std::string(ParseCellRun(R"({"tokens":1})").status().message()), HasSubstr("workers"));
  std::string more_workers = kRun;
  more_workers.replace(more_workers.find("\"workers\":2"), 11, "\"workers\":3");
  EXPECT_THAT(std::string(ParseCellRun(more_workers).status().message()), HasSubstr("ranks has 2 elements"));
  std::string no_digest = kRun;
  no_digest.replace(no_digest.find("\"ab\""), 4, "\"\"");
  EXPECT_FALSE(ParseCellRun(no_digest).ok());
}

TEST(SplitWait, IsLateUntilThePeerHasPosted) {
  CellRun run = TwoWorkers();
  WaitSplit split = SplitWait(run, 0, 0);
  EXPECT_DOUBLE_EQ(split.late_us, 50e3);
  EXPECT_DOUBLE_EQ(split.transfer_us, 50e3);
  EXPECT_DOUBLE_EQ(SplitWait(run, 1, 0).late_us, 0);
  run.ranks[1].steps[0].posted_us = 0;  // long before the wait
  split = SplitWait(run, 0, 0);
  EXPECT_DOUBLE_EQ(split.late_us, 0);
  EXPECT_DOUBLE_EQ(split.transfer_us, 100e3);
  run.ranks[1].steps[0].posted_us = 900e3;  // after it: clocks that do not quite agree
  EXPECT_DOUBLE_EQ(SplitWait(run, 0, 0).late_us, 100e3);
}

TEST(SplitWait, OfEverybodyEndsWithTheLast) {
  CellRun run = TwoWorkers();
  run.workers = 3;
  run.ranks.push_back(run.ranks[1]);
  run.ranks[2].steps[0].posted_us = 320e3;  // the one before rank 0 in the ring
  EXPECT_DOUBLE_EQ(SplitWait(run, 0, 0).late_us, 20e3);
  run.ranks[0].steps[0].everybody = true;
  EXPECT_DOUBLE_EQ(SplitWait(run, 0, 0).late_us, 50e3);  // rank 1 is the last
}

}  // namespace
}  // namespace rondo::cli
