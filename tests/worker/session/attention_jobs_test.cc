// Attention jobs in the step loop of a whole group, ranks as threads: opened, filled, run, cancelled and closed in the
// order of the commands, on all ranks or none, with one worker's bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/session_harness.h"

namespace rondo {
namespace {

using rondo::testing::JobRecord;
using rondo::testing::SessionGroup;
using rondo::testing::SessionOptions;
using rondo::testing::TestModel;
using ::testing::HasSubstr;

struct Problem {
  AttentionJobSpec spec;
  std::vector<float> q, k, v;
};

Problem MakeProblem(int64_t tokens = 1500) {
  Problem p;
  p.spec.q_tokens = p.spec.kv_tokens = tokens;
  p.spec.shape.q_heads = 2;
  p.spec.shape.kv_heads = 1;
  p.spec.shape.head_dim = 8;
  p.spec.shape.scale = 0.35f;
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  p.q.resize(tokens * p.spec.QRow());
  p.k.resize(tokens * p.spec.KvRow());
  p.v.resize(tokens * p.spec.KvRow());
  for (std::vector<float>* values : {&p.q, &p.k, &p.v}) {
    for (float& value : *values) value = normal(random);
  }
  return p;
}

OpenAttention OpenCommand(const std::string& id, const Problem& p, int ring_size) {
  return {id, "token", p.spec, ring_size};
}

absl::Status PutRows(AttentionTensors& job, JobTensor tensor, const std::vector<float>& rows, int64_t row_elements,
                     absl::Span<const PositionRun> runs) {
  for (const PositionRun& run : runs) {
    const absl::Span<const uint8_t> part(reinterpret_cast<const uint8_t*>(rows.data() + run.begin * row_elements),
                                         run.size() * row_elements * sizeof(float));
    if (absl::Status put = job.Put(tensor, run.begin, KvType::kF32, {part}); !put.ok()) return put;
  }
  return absl::OkStatus();
}

void Fill(SessionGroup& group, const std::string& id, const Problem& p, int ring_size, bool values = true) {
  const RingShares shares = PlanShares(p.spec.Problem(), ring_size);
  for (int rank = 0; rank < ring_size; ++rank) {
    auto job = group.attention(rank).Find(id, "token", 0);
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_TRUE(PutRows(**job, JobTensor::kQ, p.q, p.spec.QRow(), shares.q_rows[rank]).ok());
    ASSERT_TRUE(PutRows(**job, JobTensor::kK, p.k, p.spec.KvRow(), shares.kv_rows[rank]).ok());
    if (values) {
      ASSERT_TRUE(PutRows(**job, JobTensor::kV, p.v, p.spec.KvRow(), shares.kv_rows[rank]).ok());
    }
  }
}

std::vector<float> Result(SessionGroup& group, const std::string& id, const Problem& p, int ring_size) {
  std::vector<float> o(p.q.size(), NAN);
  const RingShares shares = PlanShares(p.spec.Problem(), ring_size);
  for (int rank = 0; rank < ring_size; ++rank) {
    auto job = group.attention(rank).Find(id, "token", 0);
    for (const PositionRun& run : shares.q_rows[rank]) {
      const auto rows = (*job)->Get(JobTensor::kO, run.begin, run.size());
      EXPECT_TRUE(rows.ok()) << rows.status();
      std::copy_n(rows->data, run.size() * p.spec.QRow(), o.begin() + run.begin * p.spec.QRow());
    }
  }
  return o;
}

bool Opened(const JobRecord& r) { return r.opened || r.ends > 0; }
bool Ran(const JobRecord& r) { return !r.runs.empty() || r.ends > 0; }
bool Ended(const JobRecord& r) { return r.ends > 0; }

// By which heartbeats keep a slow upload's place.
TEST(AttentionJobs, SaysWhichJobsTookRowsSinceItWasLastAsked) {
  const Problem p = MakeProblem();
  SessionOptions options;
  options.world = 2;
  SessionGroup group(TestModel{}, options);
  for (const char* id : {"fed", "other"}) {
    group.Push(OpenCommand(id, p, 2));
    ASSERT_TRUE(group.WaitFor(id, Opened));
  }
  EXPECT_TRUE(group.attention(1).TakeFed().empty());
  Fill(group, "fed", p, 2, false);
  EXPECT_EQ(group.attention(1).TakeFed(), std::vector<std::string>{"fed"});
  EXPECT_TRUE(group.attention(1).TakeFed().empty());
}

TEST(AttentionJobs, OneWorkersBitsOnAnyPartOfAnyGroup) {
  const Problem p = MakeProblem();
  std::vector<float> wanted;
  for (int world = 1; world <= 4; ++world) {
    SessionOptions options;
    options.world = world;
    SessionGroup group(TestModel{}, options);
    for (int ring = 1; ring <= world; ++ring) {
      const std::string id = "job" + std::to_string(ring);
      group.Push(OpenCommand(id, p, ring));
      ASSERT_TRUE(group.WaitFor(id, Opened));
      EXPECT_TRUE(group.Record(id).opened);
      Fill(group, id, p, ring);
      group.Push(RunAttention{id});
      ASSERT_TRUE(group.WaitFor(id, Ran));
      const JobRecord record = group.Record(id);
      ASSERT_TRUE(record.runs.at(0).error.ok()) << record.runs.at(0).error;
      EXPECT_EQ(record.runs[0].workers, ring);
      EXPECT_GT(group.loop(0).kv_used_bytes(), 0u);
      EXPECT_EQ(record.runs[0].memory_bytes_per_worker, AttentionJobBytes(p.spec, ring));
      const std::vector<float> o = Result(group, id, p, ring);
      if (wanted.empty()) wanted = o;
      EXPECT_EQ(0, std::memcmp(o.data(), wanted.data(), o.size() * sizeof(float))) << ring << " of " << world;
      group.Push(CancelJob{id, "done"});
      ASSERT_TRUE(group.WaitFor(id, Ended));
      EXPECT_EQ(group.Record(id).ends, 1);
      EXPECT_FALSE(group.attention(0).Find(id, "token", 0).ok());
    }
  }
}

TEST(AttentionJobs, WhatIsMissingIsNamedAndMayStillCome) {
  const Problem p = MakeProblem();
  SessionOptions options;
  options.world = 3;
  SessionGroup group(TestModel{}, options);
  group.Push(OpenCommand("a", p, 3));
  ASSERT_TRUE(group.WaitFor("a", Opened));
  Fill(group, "a", p, 3, false);
  group.Push(RunAttention{"a"});
  ASSERT_TRUE(group.WaitFor("a", Ran));
  const absl::Status missing = group.Record("a").runs.at(0).error;
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("rank 0"));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("V has 0 of"));
  Fill(group, "a", p, 3);
  group.Push(RunAttention{"a"});
  ASSERT_TRUE(group.WaitFor("a", [](const JobRecord& r) { return r.runs.size() == 2; }));
  EXPECT_TRUE(group.Record("a").runs[1].error.ok());
  // Once more, and with a job that is not there: nothing happens to the group.
  group.Push(RunAttention{"a"});
  group.Push(RunAttention{"nobody"});
  group.Push(CancelJob{"nobody", ""});
  ASSERT_TRUE(group.WaitFor("a", [](const JobRecord& r) { return r.runs.size() == 3; }));
  EXPECT_THAT(std::string(group.Record("a").runs[2].error.message()), HasSubstr("has run already"));
  EXPECT_EQ(Result(group, "a", p, 3).size(), p.q.size());
}

TEST(AttentionJobs, ARankWithoutRoomIsTheJobsEndOnAllRanks) {
  const Problem p = MakeProblem();
  SessionOptions options;
  options.world = 3;
  options.kv_memory = {1 << 30, 1 << 30, 1000};
  SessionGroup group(TestModel{}, options);
  group.Push(OpenCommand("a", p, 3));
  ASSERT_TRUE(group.WaitFor("a", Ended));
  const JobRecord record = group.Record("a");
  EXPECT_FALSE(record.opened);
  EXPECT_EQ(record.result.finish_reason, "error");
  EXPECT_EQ(record.result.error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(record.result.error.message()), HasSubstr("rank 2"));
  EXPECT_THAT(std::string(record.result.error.message()), HasSubstr("of 1000"));
  EXPECT_FALSE(group.attention(0).Find("a", "token", 0).ok());
  // Two of the three are enough for another.
  group.Push(OpenCommand("b", p, 2));
  ASSERT_TRUE(group.WaitFor("b", Opened));
  EXPECT_TRUE(group.Record("b").opened);
}

TEST(AttentionJobs, CancelledBeforeAndWhileItRuns) {
  const Problem p = MakeProblem(6000);
  SessionOptions options;
  options.world = 3;
  SessionGroup group(TestModel{}, options);
  for (const std::string id : {"early", "late"}) {
    group.Push(OpenCommand(id, p, 2));
    ASSERT_TRUE(group.WaitFor(id, Opened));
    Fill(group, id, p, 2);
    if (id == "early") group.FlagCancelled(1, id);  // one rank hears of it before the run
    group.Push(RunAttention{id});
    if (id == "late") group.FlagCancelled(0, id);  // at whatever moment
    group.Push(CancelJob{id, "enough"});
    ASSERT_TRUE(group.WaitFor(id, Ended));
    EXPECT_EQ(group.Record(id).ends, 1);
    if (id == "early") {
      EXPECT_TRUE(group.Record(id).runs.empty());
    }
  }
  const Problem small = MakeProblem();
  group.Push(OpenCommand("next", small, 3));
  ASSERT_TRUE(group.WaitFor("next", Opened));
  Fill(group, "next", small, 3);
  group.Push(RunAttention{"next"});
  ASSERT_TRUE(group.WaitFor("next", Ran));
  EXPECT_TRUE(group.Record("next").runs.at(0).error.ok());
}

TEST(AttentionJobs, WithoutAModelAGenerateJobEndsAlone) {
  SessionOptions options;
  options.world = 2;
  SessionGroup group(TestModel{}, options);
  StartJob start;
  start.id = "g";
  start.prompt = {1, 2, 3};
  start.max_tokens = 4;
  const auto record = group.RunJob(start);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->result.error.code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace rondo
