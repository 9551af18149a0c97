// A job that one rank cannot start ends alone: with that rank's name and numbers, while the group goes on.

#include "worker/session/start_agreement.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/worker/session/law_jobs.h"
#include "worker/transport/loopback_transport.h"

namespace rondo::testing {
namespace {

const TestModel& Model() {
  static const TestModel model = TinyModel(false).value();
  return model;
}

StartJob Job(const std::string& id, int64_t prompt, int64_t max_tokens) {
  StartJob job;
  job.id = id;
  job.prompt = RandomPrompt(prompt, 21);
  job.max_tokens = max_tokens;
  return job;
}

uint64_t BlockBytes() {
  return KvBlockBytes(ShapeOf(Model().model->config, *SelectKernels("").value().attention, KvType::kF32)) *
         Model().model->config.layers;
}

std::string DigestAlone(const StartJob& job) {
  SessionGroup group(Model(), {});
  return group.RunJob(job).value().result.digest;
}

// One block of 256 tokens in five layers fits on rank 2, two do not.
SessionOptions RankTwoIsSmall() {
  SessionOptions options;
  options.world = 3;
  options.kv_memory = {0, 0, BlockBytes()};
  return options;
}

void ExpectRankTwoRefused(const absl::StatusOr<JobRecord>& record, uint64_t used) {
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->ends, 1);
  EXPECT_EQ(record->result.finish_reason, "error");
  EXPECT_EQ(record->result.error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(record->result.error.message()),
            absl::StrCat("rank 2 could not start the job: KV memory: the job needs ", 2 * BlockBytes(),
                         " bytes, other jobs hold ", used, " of ", BlockBytes()));
  EXPECT_TRUE(record->tokens.empty());
}

TEST(StartAgreement, AJobThatOneRankCannotKeepEndsAlone) {
  SessionGroup group(Model(), RankTwoIsSmall());
  ExpectRankTwoRefused(group.RunJob(Job("large", 1500, 4)), 0);
  const absl::StatusOr<JobRecord> next = group.RunJob(Job("small", 600, 4));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->result.digest, DigestAlone(Job("small", 600, 4)));
}

TEST(StartAgreement, JobsBesideItGoOnWithTheirBits) {
  SessionGroup group(Model(), RankTwoIsSmall());
  group.Push(Job("beside", 600, 100));
  group.Push(Job("large", 1500, 4));
  group.Push(Job("after", 40, 4));
  ExpectRankTwoRefused(group.WaitForEnd("large"), BlockBytes());
  const absl::StatusOr<JobRecord> beside = group.WaitForEnd("beside");
  ASSERT_TRUE(beside.ok()) << beside.status();
  EXPECT_EQ(beside->result.finish_reason, "length");
  EXPECT_EQ(beside->result.digest, DigestAlone(Job("beside", 600, 100)));
  EXPECT_TRUE(group.WaitForEnd("after").ok());
}

// The true cause, not our own count: the kernel refuses the mapping.
TEST(StartAgreement, AMappingTheKernelRefusesIsTheJobsOwnEnd) {
  SessionOptions options;
  options.world = 2;
  SessionGroup group(Model(), options);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit tight = before;
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  tight.rlim_cur = pages * sysconf(_SC_PAGESIZE) + (128 << 20);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  // 4,096 blocks of 240 KiB on two ranks: 480 MiB each.
  const absl::StatusOr<JobRecord> record = group.RunJob(Job("huge", 10, 1 << 20));
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->result.error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(record->result.error.message().find("rank 0 could not start the job: cannot map"), std::string::npos)
      << record->result.error;
  EXPECT_TRUE(group.RunJob(Job("after", 40, 2)).ok());
}

// Ranks outside the job's ring hold it too, so that all ranks' lists match.
TEST(StartAgreement, RanksOutsideTheRingDropTheJobToo) {
  SessionGroup group(Model(), [] {
    SessionOptions options;
    options.world = 3;
    options.kv_memory = {BlockBytes(), 0, 0};
    return options;
  }());
  StartJob job = Job("large", 1500, 4);
  job.ring_size = 2;
  const absl::StatusOr<JobRecord> record = group.RunJob(job);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->result.error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(group.RunJob(Job("after", 40, 2)).ok());
}

TEST(StartAgreement, TheLowestRankSpeaksAndLongWordsAreCut) {
  constexpr int kRanks = 3;
  LoopbackHub hub(kRanks);
  std::vector<StartVerdict> verdicts(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Transport> transport = hub.Connect(rank);
      const absl::Status mine = rank == 0 ? absl::OkStatus() : absl::InternalError(std::string(1000, 'a' + rank));
      const absl::StatusOr<StartVerdict> verdict = AgreeOnStart(*transport, mine, absl::Now() + absl::Minutes(1));
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      verdicts[rank] = *verdict;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const StartVerdict& verdict : verdicts) {
    EXPECT_EQ(verdict.rank, 1);
    EXPECT_EQ(verdict.why, absl::InternalError("rank 1 could not start the job: " + std::string(248, 'b')));
  }
}

}  // namespace
}  // namespace rondo::testing
