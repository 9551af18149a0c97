// The coordinator and its journal: restarts, compaction while it runs, a disk that is full for a while.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/coordinator/server_fixture.h"

namespace {
std::atomic<bool> disk_fails{false};
}

// In place of the C library's: a disk that takes what is written and cannot keep it.
extern "C" int fdatasync(int fd) {
  if (!disk_fails) return static_cast<int>(syscall(SYS_fdatasync, fd));
  errno = EIO;
  return -1;
}
extern "C" int fsync(int fd) {
  if (!disk_fails) return static_cast<int>(syscall(SYS_fsync, fd));
  errno = EIO;
  return -1;
}

namespace rondo::coordinator {
namespace {

// What the next start would know, read from a copy: the file as a SIGKILL would leave it now.
JobHistory HistoryOf(const std::string& path) {
  std::filesystem::copy_file(path, path + ".copy", std::filesystem::copy_options::overwrite_existing);
  JobHistory history;
  auto journal = Journal::Open(path + ".copy");
  EXPECT_TRUE(journal.ok()) << journal.status();
  const auto replayed = (*journal)->Replay([&](std::string_view p) { return history.Apply(p); });
  EXPECT_TRUE(replayed.ok()) << replayed.status();
  return history;
}

TEST_F(ServerTest, AKilledCoordinatorFinishesItsJobsAfterTheRestart) {
  const TemporaryFolder folder;
  auto journal = Journal::Open(folder / "j");
  ASSERT_TRUE(journal.ok()) << journal.status();
  StartServer(*std::move(journal));
  auto ranks = Group("a");
  Call call(*stub_, TextRequest("hi", 10));
  const std::string id = ranks[0]->WaitStart().start().job_id();
  ranks[0]->Token(id, 0, 'a');
  EXPECT_TRUE(call.WaitEvent([](const v1::GenerateEvent& e) { return e.delta().text() == "a"; }));
  // What a SIGKILL would leave: the file as it is now.
  std::filesystem::copy_file(folder / "j", folder / "k");
  server_->Stop(std::chrono::milliseconds(0));

  auto again = Journal::Open(folder / "k");
  ASSERT_TRUE(again.ok()) << again.status();
  JobHistory history;
  ASSERT_TRUE((*again)->Replay([&](std::string_view p) { return history.Apply(p); }).ok());
  ASSERT_TRUE(Compact(**again, history.Closed(200), history.Unfinished(), 1).ok());
  StartServer(*std::move(again), history);
  auto next = Group("b");
  const Message start = next[0]->WaitStart();
  EXPECT_EQ(start.start().job_id(), id);
  EXPECT_EQ(start.start().max_tokens(), 10u);
  next[0]->Token(id, 0, 'a');
  next[0]->Token(id, 1, 'b');
  next[0]->Ended(id, "stop");
  v1::Job job = GetJob(id);
  for (int i = 0; i < 1000 && job.state() != "finished"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    job = GetJob(id);
  }
  EXPECT_EQ(job.state(), "finished");
  EXPECT_EQ(job.text(), "ab");
}

TEST_F(ServerTest, TheJournalIsCompactedWhileJobsRun) {
  const TemporaryFolder folder;
  auto journal = Journal::Open(folder / "j");
  ASSERT_TRUE(journal.ok()) << journal.status();
  constexpr uint64_t kCompactBytes = 20000;
  engine_.compact_bytes = kCompactBytes;
  engine_.scheduler.retained_jobs = 3;
  // What an earlier compaction left when it was killed: of no account.
  std::ofstream(folder / "j.new") << "half a file";
  StartServer(*std::move(journal));
  auto ranks = Group("a");

  // One job lives through all compactions, drawing a token between the others' lives.
  v1::GenerateRequest long_request = TextRequest("long", 500);
  Call long_call(*stub_, long_request);
  const std::string long_id = ranks[0]->WaitStart().start().job_id();
  std::vector<std::string> ids;
  uint64_t appended = 0, largest = 0;
  std::vector<int32_t> long_tokens;
  for (uint32_t i = 0; i < 60; ++i) {
    ranks[0]->Token(long_id, i, 'a' + i % 26);
    long_tokens.push_back('a' + static_cast<int32_t>(i % 26));
    Call call(*stub_, TextRequest(std::string(800, 'x'), 3));
    ids.push_back(ranks[0]->WaitStart().start().job_id());
    ranks[0]->Token(ids.back(), 0, 'y');
    ranks[0]->Ended(ids.back(), "length");
    EXPECT_TRUE(call.Wait().ok());
    appended += 800;
    largest = std::max<uint64_t>(largest, std::filesystem::file_size(folder / "j"));
    // At every point of its life the file tells the whole story.
    const JobHistory history = HistoryOf(folder / "j");
    ASSERT_EQ(history.Unfinished().size(), 1u);
    EXPECT_EQ(history.Unfinished()[0].spec.id, long_id);
    EXPECT_EQ(history.Unfinished()[0].tokens, long_tokens);
    EXPECT_EQ(history.Unfinished()[0].spec.prompt->size(), 3u);  // as the tiny vocabulary has it
    const std::vector<Job> closed = history.Closed(3);
    for (size_t k = 0; k < closed.size(); ++k) EXPECT_EQ(closed[k].spec.id, ids[ids.size() - closed.size() + k]);
    EXPECT_EQ(closed.back().result.digest, "digest");
  }
  EXPECT_GT(appended, 2 * kCompactBytes);
  EXPECT_LT(largest, kCompactBytes + 4000);
  EXPECT_FALSE(std::filesystem::exists(folder / "j.new"));
}

// A limit on the file's size stands for a full disk. Without care the record of a job's end would follow on a missing
// one of its submission, and no coordinator would start on this file again.
TEST_F(ServerTest, AFullDiskForAWhileLeavesAJournalThatCanBeRead) {
  const TemporaryFolder folder;
  auto journal = Journal::Open(folder / "j");
  ASSERT_TRUE(journal.ok()) << journal.status();
  StartServer(*std::move(journal));
  auto ranks = Group("a");
  Call before(*stub_, TextRequest("before", 10));
  const std::string running = ranks[0]->WaitStart().start().job_id();

  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit was = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &was), 0);
  rlimit full = was;
  full.rlim_cur = std::filesystem::file_size(folder / "j") + 200;  // room for a job's end, not for this prompt
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  Call refused(*stub_, TextRequest(std::string(1000, 'x'), 10));
  const grpc::Status status = refused.Wait();
  ranks[0]->Token(running, 0, 'a');
  EXPECT_TRUE(before.WaitEvent([](const v1::GenerateEvent& e) { return e.delta().text() == "a"; }));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &was), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("the journal could not keep the job"));
  EXPECT_EQ(HistoryOf(folder / "j").Unfinished().size(), 1u);

  Call after(*stub_, TextRequest("after", 10));
  const std::string next = after.AcceptedId();
  ranks[0]->Token(running, 1, 'b');
  ranks[0]->Ended(running, "length");
  EXPECT_TRUE(before.Wait().ok());
  const JobHistory history = HistoryOf(folder / "j");
  ASSERT_EQ(history.Unfinished().size(), 1u);
  EXPECT_EQ(history.Unfinished()[0].spec.id, next);
  ASSERT_FALSE(history.Closed(9).empty());
  EXPECT_THAT(history.Closed(9).back().tokens, testing::ElementsAre('a', 'b'));
}

// Its submission was written, and then could not be synced: the client hears that it is refused, so no restart may run
// it.
TEST_F(ServerTest, AJobRefusedBecauseTheDiskFailsIsNotRunAfterARestart) {
  const TemporaryFolder folder;
  auto journal = Journal::Open(folder / "j");
  ASSERT_TRUE(journal.ok()) << journal.status();
  StartServer(*std::move(journal));
  auto ranks = Group("a");
  Call before(*stub_, TextRequest("before", 10));
  const std::string running = ranks[0]->WaitStart().start().job_id();

  disk_fails = true;
  Call refused(*stub_, TextRequest("refused", 10));
  const grpc::Status status = refused.Wait();
  const std::vector<Job> unfinished = HistoryOf(folder / "j").Unfinished();
  disk_fails = false;
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("the journal could not keep the job"));
  ASSERT_EQ(unfinished.size(), 1u);
  EXPECT_EQ(unfinished[0].spec.id, running);

  // The next record that matters brings the journal up to date.
  ranks[0]->Token(running, 0, 'a');
  ranks[0]->Ended(running, "length");
  EXPECT_TRUE(before.Wait().ok());
  EXPECT_TRUE(HistoryOf(folder / "j").Unfinished().empty());
  EXPECT_EQ(HistoryOf(folder / "j").Closed(9).size(), 2u);
}

}  // namespace
}  // namespace rondo::coordinator
