// The journal file: every truncation, every flipped bit, two coordinators at once, compaction.
#include "coordinator/journal/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/crc32c.h"
#include "coordinator/journal/frame.h"
#include "coordinator/journal/records.h"

namespace rondo::coordinator {
namespace {

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    std::string pattern = testing::TempDir() + "/rondo-journal-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/deep/journal";
  }
  ~JournalTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Journal> Open() {
    auto journal = Journal::Open(path_);
    EXPECT_TRUE(journal.ok()) << journal.status();
    return journal.ok() ? *std::move(journal) : nullptr;
  }
  std::string Bytes() {
    std::ifstream file(path_, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void SetBytes(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  // Payloads of a replay, or its error.
  absl::StatusOr<std::vector<std::string>> Replay() {
    auto journal = Journal::Open(path_);
    if (!journal.ok()) return journal.status();
    std::vector<std::string> payloads;
    auto replayed = (*journal)->Replay([&](std::string_view p) {
      payloads.emplace_back(p);
      return absl::OkStatus();
    });
    if (!replayed.ok()) return replayed.status();
    return payloads;
  }

  std::string folder_;
  std::string path_;
};

TEST(Crc32c, VectorsOfRfc3720) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string up(32, 0), down(32, 0);
  for (int i = 0; i < 32; ++i) up[i] = static_cast<char>(i), down[i] = static_cast<char>(31 - i);
  EXPECT_EQ(Crc32c(up), 0x46dd794eu);
  EXPECT_EQ(Crc32c(down), 0x113fdb5cu);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(ExtendCrc32c(Crc32c("1234"), "56789", 5), 0xe3069283u);
}

TEST_F(JournalTest, KeepsRecordsInOrder) {
  for (const char* payload : {"one", "", "three"}) {
    auto journal = Open();
    ASSERT_TRUE(journal->Replay([](std::string_view) { return absl::OkStatus(); }).ok());
    ASSERT_TRUE(journal->Append(payload).ok());
    ASSERT_TRUE(journal->Sync().ok());
  }
  EXPECT_THAT(*Replay(), testing::ElementsAre("one", "", "three"));
}

// The worked example of docs/FORMATS.md.
TEST_F(JournalTest, BytesAreThoseOfTheDocument) {
  ASSERT_TRUE(Open()->Append(EncodeRecord(StartedRecord{"a", 7}, 1)).ok());
  std::ifstream file(RONDO_SOURCE_DIR "/docs/FORMATS.md");
  std::string line;
  while (std::getline(file, line) && !line.starts_with("A journal with one record")) {
  }
  std::string documented;
  for (int fences = 0; fences < 2 && std::getline(file, line);) {
    if (line == "```") ++fences;
    std::istringstream bytes(line.substr(0, std::min<size_t>(line.size(), 48)));
    std::string byte;
    while (fences == 1 && bytes >> byte && byte.size() == 2) {
      documented.push_back(static_cast<char>(std::stoi(byte, nullptr, 16)));
    }
  }
  EXPECT_EQ(Bytes(), documented);
}

TEST_F(JournalTest, ASecondCoordinatorIsRefused) {
  auto first = Open();
  EXPECT_EQ(Journal::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(first->Rewrite([](Journal&) { return absl::OkStatus(); }).ok());
  EXPECT_EQ(Journal::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition);
  first.reset();
  EXPECT_TRUE(Journal::Open(path_).ok());
}

TEST_F(JournalTest, EveryTruncationReplaysTheWholeRecordsAndGoesOn) {
  const std::vector<std::string> payloads = {"first", "the second", "third!"};
  std::vector<size_t> ends = {kFileHeaderBytes};
  {
    auto journal = Open();
    for (const std::string& p : payloads) {
      ASSERT_TRUE(journal->Append(p).ok());
      ends.push_back(journal->size_bytes());
    }
  }
  const std::string whole = Bytes();
  for (size_t length = 0; length <= whole.size(); ++length) {
    SetBytes(whole.substr(0, length));
    size_t kept = 0;
    while (kept < payloads.size() && ends[kept + 1] <= length) ++kept;
    auto replayed = Replay();
    ASSERT_TRUE(replayed.ok()) << length << ": " << replayed.status();
    EXPECT_EQ(replayed->size(), kept) << length;
    // The torn tail is gone, so a new record follows the whole ones.
    {
      auto journal = Open();
      ASSERT_TRUE(journal->Append("new").ok());
    }
    EXPECT_EQ(Replay()->size(), kept + 1) << length;
    EXPECT_EQ(Replay()->back(), "new") << length;
  }
}

TEST_F(JournalTest, EveryFlippedBitBeforeTheLastRecordIsDataLossWithItsOffset) {
  std::vector<size_t> ends = {kFileHeaderBytes};
  {
    auto journal = Open();
    for (const char* p : {"first", "the second", "third!"}) {
      ASSERT_TRUE(journal->Append(p).ok());
      ends.push_back(journal->size_bytes());
    }
  }
  const std::string whole = Bytes();
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    SetBytes(bytes);
    const auto replayed = Replay();
    if (bit / 8 < kFileHeaderBytes) {
      EXPECT_EQ(replayed.status().code(), absl::StatusCode::kFailedPrecondition) << bit;
    } else if (bit / 8 < ends[2]) {
      const size_t offset = bit / 8 < ends[1] ? ends[0] : ends[1];
      EXPECT_EQ(replayed.status().code(), absl::StatusCode::kDataLoss) << bit;
      EXPECT_THAT(std::string(replayed.status().message()),
                  testing::HasSubstr("at offset " + std::to_string(offset) + " "))
          << bit;
      EXPECT_THAT(std::string(replayed.status().message()),
                  testing::HasSubstr("truncate -s " + std::to_string(offset) + " " + path_));
      EXPECT_EQ(Bytes(), bytes) << "a damaged file is left as it is";
    } else {
      // Not to be told from a record that was being written.
      ASSERT_TRUE(replayed.ok()) << bit << replayed.status();
      EXPECT_EQ(replayed->size(), 2u) << bit;
    }
  }
}

JobSpec Spec(const std::string& id, uint64_t arrival) {
  JobSpec spec;
  spec.id = id;
  spec.arrival = arrival;
  spec.prompt = std::make_shared<const std::vector<int32_t>>(std::vector<int32_t>{5, 6, 7});
  spec.prompt_tokens = 3;
  spec.max_tokens = 9;
  spec.sampling = {0.5f, 40, 0.9f, 0.1f, 1234567890123456789u};
  spec.stops = {"stop\xff"};
  spec.ring_size = 2;
  spec.forced_tokens = {1};
  spec.bits_key = "sha/q8/f32/cpu";
  spec.submitted = 111;
  spec.deadline = 222;
  return spec;
}

TEST_F(JournalTest, CompactionKeepsWhatTheNextStartNeeds) {
  JobResult result;
  result.finish_reason = "stop";
  result.digest = "abc";
  result.kv_bytes_per_worker = {1, 2};
  const std::vector<Record> records = {
      SubmittedRecord{Spec("old", 1)},  ClosedRecord{"old", JobState::kFinished, absl::OkStatus(), result},
      SubmittedRecord{Spec("done", 2)}, SubmittedRecord{Spec("b", 4)},
      SubmittedRecord{Spec("a", 3)},    StartedRecord{"done", 7},
      TokensRecord{"done", 0, {8, 9}},  TokensRecord{"a", 0, {1}},
      TokensRecord{"a", 1, {2}},        ClosedRecord{"done", JobState::kFinished, absl::OkStatus(), result},
  };
  auto journal = Open();
  JobHistory history;
  for (const Record& record : records) {
    const std::string payload = EncodeRecord(record, 1);
    ASSERT_TRUE(journal->Append(payload).ok());
    ASSERT_TRUE(history.Apply(payload).ok());
  }
  ASSERT_TRUE(Compact(*journal, history.Closed(1), history.Unfinished(), 2).ok());
  ASSERT_TRUE(journal->Append(EncodeRecord(TokensRecord{"a", 2, {3}}, 3)).ok());
  journal.reset();
  JobHistory again;
  const auto payloads = Replay();
  ASSERT_TRUE(payloads.ok()) << payloads.status();
  for (const std::string& payload : *payloads) ASSERT_TRUE(again.Apply(payload).ok());
  const std::vector<Job> unfinished = again.Unfinished();
  ASSERT_EQ(unfinished.size(), 2u);
  const Job& a = unfinished[0];
  EXPECT_EQ(a.spec.id, "a");
  EXPECT_EQ(unfinished[1].spec.id, "b");
  EXPECT_THAT(a.tokens, testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(*a.spec.prompt, testing::ElementsAre(5, 6, 7));
  EXPECT_EQ(a.spec.sampling.seed, 1234567890123456789u);
  EXPECT_EQ(a.spec.sampling.top_p, 0.9f);
  EXPECT_EQ(a.spec.stops.at(0), "stop\xff");
  EXPECT_EQ(a.spec.forced_tokens.at(0), 1);
  EXPECT_EQ(a.spec.bits_key, "sha/q8/f32/cpu");
  EXPECT_EQ(a.spec.deadline, 222);
  const std::vector<Job> closed = again.Closed(10);
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(closed[0].spec.id, "done");
  EXPECT_EQ(closed[0].spec.prompt_tokens, 3);
  EXPECT_EQ(closed[0].result.digest, "abc");
  EXPECT_THAT(closed[0].tokens, testing::ElementsAre(8, 9));
}

JobHistory HistoryOf(const std::vector<std::string>& payloads) {
  JobHistory history;
  for (const std::string& payload : payloads) EXPECT_TRUE(history.Apply(payload).ok());
  return history;
}

// Every run of an unfinished job was lost: those before, and the one that went with the coordinator.
TEST_F(JournalTest, RunsOfAJobAreCountedOverRestartsAndCompaction) {
  auto journal = Open();
  for (const Record& record : {Record(SubmittedRecord{Spec("a", 1)}), Record(StartedRecord{"a", 7, 0}),
                               Record(StartedRecord{"a", 8, 1}), Record(SubmittedRecord{Spec("b", 2)})}) {
    ASSERT_TRUE(journal->Append(EncodeRecord(record, 1)).ok());
  }
  journal.reset();
  std::vector<Job> jobs = HistoryOf(*Replay()).Unfinished();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].restarts, 2u);
  EXPECT_EQ(jobs[1].restarts, 0u);

  // At a start, when nothing runs.
  journal = Open();
  ASSERT_TRUE(Compact(*journal, {}, jobs, 2).ok());
  journal.reset();
  jobs = HistoryOf(*Replay()).Unfinished();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].restarts, 2u);
  EXPECT_EQ(jobs[1].restarts, 0u);

  // In the middle of a run, which is counted when it is lost.
  jobs[1].state = JobState::kRunning;
  journal = Open();
  ASSERT_TRUE(Compact(*journal, {}, jobs, 2).ok());
  journal.reset();
  jobs = HistoryOf(*Replay()).Unfinished();
  EXPECT_EQ(jobs[0].restarts, 2u);
  EXPECT_EQ(jobs[1].restarts, 1u);
}

TEST_F(JournalTest, RecordsCanBeTakenBack) {
  auto journal = Open();
  ASSERT_TRUE(journal->Append("kept").ok());
  const uint64_t size = journal->size_bytes();
  ASSERT_TRUE(journal->Append("not kept").ok());
  ASSERT_TRUE(journal->Retract(size).ok());
  ASSERT_TRUE(journal->Append("next").ok());
  journal.reset();
  EXPECT_THAT(*Replay(), testing::ElementsAre("kept", "next"));
}

TEST(CompactionRule, IsDueWhenLargeAndTwiceWhatWasLeft) {
  CompactionRule rule(1000, 16);
  EXPECT_FALSE(rule.Due(999));
  EXPECT_TRUE(rule.Due(1000));
  rule.Compacted(400);
  EXPECT_FALSE(rule.Due(999));
  EXPECT_TRUE(rule.Due(1000));
  rule.Compacted(900);  // most of it is alive: again when as much has come
  EXPECT_FALSE(rule.Due(1799));
  EXPECT_TRUE(rule.Due(1800));
  EXPECT_FALSE(CompactionRule(0, 1 << 20).Due(uint64_t{1} << 40));
}

// A process that lives through jobs, says which ends are on the disk, and compacts all the time, killed anywhere.
TEST_F(JournalTest, KilledWhileCompactingItKeepsWhatWasSynced) {
  constexpr int kRounds = 20;
  std::minstd_rand random(7);
  for (int round = 0; round < kRounds; ++round) {
    std::filesystem::remove_all(folder_ + "/deep");
    int pipe_fds[2];
    ASSERT_EQ(pipe(pipe_fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto journal = Journal::Open(path_);
      JobHistory history;
      for (uint32_t i = 0; journal.ok(); ++i) {
        const std::string id = std::to_string(i);
        for (const Record& record : {Record(SubmittedRecord{Spec(id, i)}), Record(TokensRecord{id, 0, {1, 2}}),
                                     Record(ClosedRecord{id, JobState::kFinished, absl::OkStatus(), {}})}) {
          const std::string payload = EncodeRecord(record, 1);
          if (!history.Apply(payload).ok() || !(*journal)->Append(payload).ok()) _exit(1);
        }
        if (!(*journal)->Sync().ok() || write(pipe_fds[1], &i, sizeof(i)) != sizeof(i)) _exit(1);
        if (!Compact(**journal, history.Closed(2), history.Unfinished(), 1).ok()) _exit(1);
      }
      _exit(1);
    }
    close(pipe_fds[1]);
    const uint32_t enough = 1 + random() % 20;
    uint32_t last = 0;
    while (last < enough && read(pipe_fds[0], &last, sizeof(last)) == sizeof(last)) {
    }
    usleep(random() % 2000);
    kill(child, SIGKILL);
    while (read(pipe_fds[0], &last, sizeof(last)) == sizeof(last)) {
    }
    close(pipe_fds[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed by itself";
    const auto payloads = Replay();
    ASSERT_TRUE(payloads.ok()) << payloads.status();
    JobHistory history;
    for (const std::string& payload : *payloads) ASSERT_TRUE(history.Apply(payload).ok());
    const std::vector<Job> closed = history.Closed(1);
    ASSERT_EQ(closed.size(), 1u);
    EXPECT_GE(std::stoul(closed[0].spec.id), last);
  }
}

}  // namespace
}  // namespace rondo::coordinator
