// The whole coordinator in this process, with ranks that only speak the protocol: uploads, streams, refusals, lost
// groups, restarts, drain.
#include "coordinator/rpc/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "model/gguf/gguf_file.h"
#include "tests/coordinator/fake_rank.h"
#include "tests/testing/tiny_llama.h"

namespace rondo::coordinator {
namespace {

using Message = v1::CoordinatorMessage;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = testing::TempDir() + "/rondo-coordinator-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string TinyHeader() {
  static const std::string header = [] {
    const TemporaryFolder folder;
    TinyLlamaOptions options;
    options.layers = 1;
    options.context = 1024;
    EXPECT_TRUE(WriteTinyLlama(folder / "m.gguf", options).ok());
    const auto file = GgufFile::Open(folder / "m.gguf");
    EXPECT_TRUE(file.ok()) << file.status();
    const auto bytes = (*file)->header_bytes();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }();
  return header;
}

v1::GenerateRequest TextRequest(const std::string& text, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_text()->set_inline_(text);
  request.set_max_tokens(max_tokens);
  return request;
}

// One Generate call, read to its end on a thread of its own.
class Call {
 public:
  Call(v1::Inference::Stub& stub, const v1::GenerateRequest& request, int deadline_ms = 0, bool read = true) {
    if (deadline_ms > 0) {
      context_.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms));
    }
    reader_ = stub.Generate(&context_, request);
    if (read) Read();
  }
  ~Call() {
    context_.TryCancel();
    if (!thread_.joinable()) Read();
    thread_.join();
  }
  void Read() {
    thread_ = std::thread([this] {
      v1::GenerateEvent event;
      while (reader_->Read(&event)) {
        const std::lock_guard lock(mutex_);
        events_.push_back(event);
        wake_.notify_all();
      }
      const grpc::Status status = reader_->Finish();
      const std::lock_guard lock(mutex_);
      status_ = status;
      done_ = true;
      wake_.notify_all();
    });
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(wake_.wait_for(lock, std::chrono::seconds(20), [this] { return done_; }));
    return status_;
  }
  bool WaitEvent(const std::function<bool(const v1::GenerateEvent&)>& wanted) {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, std::chrono::seconds(10),
                          [&] { return std::any_of(events_.begin(), events_.end(), wanted); });
  }
  std::string AcceptedId() {
    WaitEvent([](const v1::GenerateEvent& e) { return e.has_accepted(); });
    const std::lock_guard lock(mutex_);
    return events_.empty() ? "" : events_.front().accepted().id();
  }
  std::string Text() {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const auto& e : events_) text += e.delta().text();
    return text;
  }
  std::vector<int32_t> Tokens() {
    const std::lock_guard lock(mutex_);
    std::vector<int32_t> tokens;
    for (const auto& e : events_) tokens.insert(tokens.end(), e.delta().tokens().begin(), e.delta().tokens().end());
    return tokens;
  }
  v1::Finished Result() {
    const std::lock_guard lock(mutex_);
    return events_.empty() ? v1::Finished() : events_.back().finished();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateEvent>> reader_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<v1::GenerateEvent> events_;
  grpc::Status status_;
  bool done_ = false;
  std::thread thread_;
};

class ServerTest : public testing::Test {
 protected:
  void StartServer(std::unique_ptr<Journal> journal = nullptr, const JobHistory& history = {}) {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.version = "test";
    auto server = Server::Start(options, engine_, std::move(journal), history);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::Inference::NewStub(grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  }
  std::unique_ptr<FakeRank> Rank(const v1::Hello& hello) {
    return std::make_unique<FakeRank>(server_->address(), hello, TinyHeader());
  }
  // A ready group of two ranks.
  std::vector<std::unique_ptr<FakeRank>> Group(const std::string& launch) {
    std::vector<std::unique_ptr<FakeRank>> ranks;
    for (uint32_t r = 0; r < 2; ++r) ranks.push_back(Rank(MakeHello(launch, r, 2)));
    for (auto& rank : ranks) EXPECT_GT(rank->WaitWelcome().epoch(), 0u);
    return ranks;
  }
  v1::Job GetJob(const std::string& id) {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_id(id);
    v1::Job job;
    EXPECT_TRUE(stub_->GetJob(&context, request, &job).ok());
    return job;
  }
  v1::Cluster Cluster() {
    grpc::ClientContext context;
    v1::Cluster cluster;
    EXPECT_TRUE(stub_->GetCluster(&context, {}, &cluster).ok());
    return cluster;
  }
  grpc::Status Upload(size_t bytes, v1::UploadReply* reply) {
    grpc::ClientContext context;
    auto writer = stub_->Upload(&context, reply);
    v1::UploadChunk chunk;
    for (size_t at = 0; at < bytes; at += chunk.data().size()) {
      chunk.set_data(std::string(std::min<size_t>(256 << 10, bytes - at), 'x'));
      if (!writer->Write(chunk)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  EngineOptions engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::Inference::Stub> stub_;
};

TEST_F(ServerTest, AJobFromTextToTextWithAnEmojiCutOverTokens) {
  StartServer();
  auto ranks = Group("a");
  Call call(*stub_, TextRequest("hi", 10));
  const Message start = ranks[0]->WaitStart();
  EXPECT_EQ(ranks[1]->WaitStart().number(), start.number());
  EXPECT_EQ(start.number(), 2u);  // the prompt was 1
  EXPECT_EQ(start.start().ring_size(), 2u);
  EXPECT_EQ(start.start().request_number(), 0u);
  const std::string id = start.start().job_id();
  EXPECT_EQ(call.AcceptedId(), id);
  ranks[0]->Progress(id, 0.5);
  const std::vector<int32_t> bytes = {'o', 'k', 0xf0, 0x9f, 0x98, 0x80};  // the tiny vocabulary has id = byte
  for (uint32_t i = 0; i < bytes.size(); ++i) ranks[0]->Token(id, i, bytes[i]);
  ranks[0]->Token(id, 6, 0, true);
  ranks[0]->Ended(id, "stop");
  EXPECT_TRUE(call.Wait().ok());
  EXPECT_EQ(call.Text(), "ok\xf0\x9f\x98\x80");
  EXPECT_EQ(call.Tokens(), bytes);
  EXPECT_EQ(call.Result().finish_reason(), "stop");
  EXPECT_EQ(call.Result().completion_tokens(), 6u);
  EXPECT_EQ(call.Result().digest(), "digest");
  const v1::Job job = GetJob(id);
  EXPECT_EQ(job.state(), "finished");
  EXPECT_EQ(job.text(), "ok\xf0\x9f\x98\x80");
  const v1::Cluster cluster = Cluster();
  ASSERT_EQ(cluster.groups_size(), 1);
  EXPECT_EQ(cluster.groups(0).state(), "ready");
  EXPECT_EQ(cluster.groups(0).context(), 1024u);
  EXPECT_EQ(cluster.groups(0).ranks(1).pid(), 1001u);
}

TEST_F(ServerTest, StopStringIsCutFromTheText) {
  StartServer();
  auto ranks = Group("a");
  v1::GenerateRequest request = TextRequest("hi", 10);
  request.add_stop("STOP");
  Call call(*stub_, request);
  const std::string id = ranks[0]->WaitStart().start().job_id();
  const std::string text = "abcSTOP";
  for (uint32_t i = 0; i < text.size(); ++i) ranks[0]->Token(id, i, text[i]);
  ranks[0]->Ended(id, "stop");
  EXPECT_TRUE(call.Wait().ok());
  EXPECT_EQ(call.Text(), "abc");
}

TEST_F(ServerTest, RanksThatDisagreeAreRefusedWithBothValues) {
  StartServer();
  for (const char* field : {"version", "model_sha256", "compute", "kv_type", "kernel_family"}) {
    auto a = Rank(MakeHello(field, 0, 2));
    v1::Hello hello = MakeHello(field, 1, 2);
    v1::Fingerprint* f = hello.mutable_fingerprint();
    f->GetReflection()->SetString(f, f->GetDescriptor()->FindFieldByName(field), "other");
    auto b = Rank(hello);
    for (FakeRank* rank : {a.get(), b.get()}) {
      const Message refused = rank->WaitFor([](const Message& m) { return m.has_refused(); });
      EXPECT_THAT(refused.refused().reason(), testing::AllOf(testing::HasSubstr("rank 0"), testing::HasSubstr("rank 1"),
                                                             testing::HasSubstr("other")))
          << field;
      EXPECT_TRUE(rank->WaitClosed());
    }
  }
}

TEST_F(ServerTest, TakenRankAndSilentFormingGroupAreRefused) {
  engine_.membership.forming_timeout_us = 300000;
  StartServer();
  auto a = Rank(MakeHello("x", 0, 3));
  auto b = Rank(MakeHello("x", 1, 3));
  auto same = Rank(MakeHello("x", 1, 3));
  // Whichever of the two came second is refused as taken, the first with the whole group.
  std::string reasons;
  for (FakeRank* rank : {a.get(), b.get(), same.get()}) {
    reasons += rank->WaitFor([](const Message& m) { return m.has_refused(); }).refused().reason() + "\n";
  }
  EXPECT_THAT(reasons, testing::HasSubstr("rank 1 of launch x is taken by pid 1001"));
  EXPECT_THAT(reasons, testing::HasSubstr("2 of 3 ranks joined within 0.3 s"));
}

TEST_F(ServerTest, UploadsAroundGrpcsLimitAndAtTheCap) {
  StartServer();
  v1::UploadReply reply;
  for (const size_t bytes : {(4u << 20) - 64, (4u << 20) + 64, 64u << 20}) {
    const grpc::Status status = Upload(bytes, &reply);
    EXPECT_TRUE(status.ok()) << bytes << " " << status.error_message();
    EXPECT_EQ(reply.size_bytes(), bytes);
    EXPECT_EQ(reply.upload_id().size(), 32u);
  }
  const grpc::Status status = Upload((64u << 20) + 1, &reply);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("67108864"));
}

TEST_F(ServerTest, BadRequestsAreRefusedBeforeAnyRankHears) {
  StartServer();
  auto ranks = Group("a");
  const auto refused = [&](const v1::GenerateRequest& request, const char* what,
                           grpc::StatusCode code = grpc::INVALID_ARGUMENT) {
    Call call(*stub_, request);
    const grpc::Status status = call.Wait();
    EXPECT_EQ(status.error_code(), code) << what;
    EXPECT_THAT(status.error_message(), testing::HasSubstr(what));
  };
  refused(v1::GenerateRequest(), "prompt: one of");
  refused(TextRequest("", 1), "prompt.text is empty");
  refused(TextRequest("hi", 0), "max_tokens: 0");
  refused(TextRequest("hi", 1100), "trained context of 1024");
  refused(TextRequest(std::string((1 << 20) + 1, 'x'), 1), "1048577 bytes inline, at most 1048576");
  v1::GenerateRequest r = TextRequest("hi", 1);
  r.mutable_sampling()->set_temperature(-1);
  refused(r, "temperature");
  r = TextRequest("hi", 1);
  for (int i = 0; i < 17; ++i) r.add_stop("s");
  refused(r, "17 strings, at most 16");
  r = TextRequest("hi", 1);
  r.add_stop(std::string(1025, 's'));
  refused(r, "stop[0]: 1025 bytes");
  r = TextRequest("hi", 1);
  r.set_ring_size(3);
  refused(r, "ring_size: 3 ranks asked, the group has 2");
  r = TextRequest("hi", 1);
  r.add_forced_tokens(-1);
  refused(r, "forced_tokens[0]: -1");
  r = TextRequest("", 1);
  r.mutable_prompt()->mutable_ids()->set_inline_("1 2 -1");
  refused(r, "position 2: -1 is not in 0..");
  r.mutable_prompt()->mutable_ids()->set_inline_("1 2147483648");
  refused(r, "position 1: 2147483648 is not in 0..");
  r.mutable_prompt()->mutable_ids()->set_inline_("1 99999999999999999999999");
  refused(r, "position 1");
  r.mutable_prompt()->mutable_ids()->set_inline_("1 2x");
  refused(r, "position 1: \"2x\"");
  r.mutable_prompt()->mutable_ids()->set_inline_(" \n ");
  refused(r, "no tokens");
  r.mutable_prompt()->mutable_ids()->set_upload_id("guess");
  refused(r, "no such upload", grpc::NOT_FOUND);
  // 1 MiB a rank at 16 bytes a token is 65,536 tokens a rank.
  r = TextRequest(std::string(200, 'x'), 200000);
  r.set_beyond_context(true);
  refused(r, "which has 1048576", grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ranks[0]->Count([](const Message& m) { return m.has_start() || m.has_prompt_ids(); }), 0u);
}

TEST_F(ServerTest, AClientThatLeavesFreesTheGroup) {
  engine_.scheduler.max_running = 1;
  StartServer();
  auto ranks = Group("a");
  auto running = std::make_unique<Call>(*stub_, TextRequest("first", 10));
  const std::string first = ranks[0]->WaitStart().start().job_id();
  Call queued(*stub_, TextRequest("second", 10));
  const std::string second = queued.AcceptedId();
  Call third(*stub_, TextRequest("third", 10));
  const std::string third_id = third.AcceptedId();
  queued.Cancel();
  // The two cancellations travel in calls of their own: the second job must be gone before the first makes room.
  const absl::Time patience = absl::Now() + absl::Seconds(30);
  while (GetJob(second).state() != "cancelled" && absl::Now() < patience) absl::SleepFor(absl::Milliseconds(5));
  running->Cancel();
  const Message cancel = ranks[1]->WaitFor([](const Message& m) { return m.has_cancel(); });
  EXPECT_EQ(cancel.cancel().job_id(), first);
  ranks[0]->Ended(first, "cancelled");
  EXPECT_EQ(ranks[0]->WaitStart().start().job_id(), third_id);
  EXPECT_EQ(GetJob(second).state(), "cancelled");
}

TEST_F(ServerTest, ADeadlineCoversTheQueue) {
  engine_.scheduler.max_running = 1;
  StartServer();
  auto ranks = Group("a");
  Call first(*stub_, TextRequest("first", 10));
  ranks[0]->WaitStart();
  Call second(*stub_, TextRequest("second", 10), 500);
  EXPECT_EQ(second.Wait().error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_EQ(ranks[0]->Count([](const Message& m) { return m.has_start(); }), 0u);
}

TEST_F(ServerTest, WithoutAGroupTheClientHearsUnavailable) {
  engine_.scheduler.group_wait_us = 100000;
  StartServer();
  Call call(*stub_, TextRequest("hi", 1));
  const grpc::Status status = call.Wait();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "no group has joined");
}

TEST_F(ServerTest, AFrozenRankEndsTheEpochAndTheStreamGoesOnInTheNext) {
  engine_.membership.rank_timeout_us = 500000;
  StartServer();
  auto ranks = Group("a");
  Call call(*stub_, TextRequest("hi", 10));
  const std::string id = ranks[0]->WaitStart().start().job_id();
  ranks[0]->Token(id, 0, 'a');
  EXPECT_TRUE(call.WaitEvent([](const v1::GenerateEvent& e) { return e.delta().text() == "a"; }));
  ranks[1]->Freeze();
  const Message leave = ranks[0]->WaitFor([](const Message& m) { return m.has_leave(); });
  EXPECT_THAT(leave.leave().reason(), testing::HasSubstr("rank 1 (pid 1001 on testhost) was silent"));
  EXPECT_TRUE(ranks[0]->WaitClosed());
  EXPECT_TRUE(ranks[1]->WaitClosed());  // also the one that reads nothing any more
  // A straggler of the same launch is not let in again.
  auto straggler = Rank(MakeHello("a", 1, 2));
  EXPECT_THAT(straggler->WaitFor([](const Message& m) { return m.has_refused(); }).refused().reason(),
              testing::HasSubstr("is over"));
  auto next = Group("b");
  EXPECT_GT(next[0]->epoch(), ranks[0]->epoch());
  EXPECT_EQ(next[0]->WaitStart().start().job_id(), id);
  next[0]->Token(id, 0, 'x', false, -1);  // an old epoch's word is not heard
  next[0]->Token(id, 0, 'a');
  next[0]->Token(id, 1, 'b');
  next[0]->Ended(id, "length");
  EXPECT_TRUE(call.Wait().ok());
  EXPECT_EQ(call.Text(), "ab");
  EXPECT_EQ(call.Result().restarts(), 1u);
  EXPECT_TRUE(
      call.WaitEvent([](const v1::GenerateEvent& e) { return e.progress().phase() == v1::Progress::RESTARTING; }));
}

TEST_F(ServerTest, ASlowReaderLosesNothingAndHoldsUpNobody) {
  StartServer();
  auto ranks = Group("a");
  v1::GenerateRequest request = TextRequest("hi", 50000);
  request.set_beyond_context(true);
  Call slow(*stub_, request, 0, false);
  const std::string id = ranks[0]->WaitStart().start().job_id();
  for (uint32_t i = 0; i < 50000; ++i) ranks[0]->Token(id, i, 'a' + i % 26);
  ranks[0]->Ended(id, "length");
  Call quick(*stub_, TextRequest("hi", 1));
  const std::string quick_id = ranks[0]->WaitStart().start().job_id();
  ranks[0]->Ended(quick_id, "length");
  EXPECT_TRUE(quick.Wait().ok());
  slow.Read();
  EXPECT_TRUE(slow.Wait().ok());
  const std::vector<int32_t> tokens = slow.Tokens();
  ASSERT_EQ(tokens.size(), 50000u);
  for (uint32_t i = 0; i < tokens.size(); ++i) ASSERT_EQ(tokens[i], static_cast<int32_t>('a' + i % 26));
}

TEST_F(ServerTest, UnreadLogitsAreBounded) {
  engine_.logits_backlog_bytes = 1 << 20;
  StartServer();
  auto ranks = Group("a");
  v1::GenerateRequest request = TextRequest("hi", 100);
  request.set_want_logits(true);
  Call slow(*stub_, request, 0, false);
  const std::string id = ranks[0]->WaitStart().start().job_id();
  for (uint32_t i = 0; i < 100; ++i) ranks[0]->Logits(id, i, 0, std::string(1 << 19, 'x'));
  ranks[0]->WaitFor([](const Message& m) { return m.has_cancel(); });
  slow.Read();
  EXPECT_EQ(slow.Wait().error_code(), grpc::RESOURCE_EXHAUSTED);
}

TEST_F(ServerTest, ADrainEndsStreamsAndSendsTheRanksHome) {
  StartServer();
  auto ranks = Group("a");
  Call running(*stub_, TextRequest("hi", 10));
  ranks[0]->WaitStart();
  server_->engine().Drain(200000);
  EXPECT_TRUE(server_->engine().WaitDrained(std::chrono::seconds(10)));
  EXPECT_EQ(running.Wait().error_code(), grpc::UNAVAILABLE);
  EXPECT_TRUE(ranks[1]->WaitFor([](const Message& m) { return m.has_leave(); }).leave().drain());
  Call late(*stub_, TextRequest("hi", 10));
  EXPECT_EQ(late.Wait().error_code(), grpc::UNAVAILABLE);
  server_->Stop(std::chrono::milliseconds(100));
}

TEST_F(ServerTest, StopDoesNotWaitForAClientThatNeverReads) {
  StartServer();
  auto ranks = Group("a");
  v1::GenerateRequest request = TextRequest("hi", 10);
  request.set_want_logits(true);
  Call silent(*stub_, request, 0, false);
  const std::string id = ranks[0]->WaitStart().start().job_id();
  for (uint32_t i = 0; i < 60; ++i) ranks[0]->Logits(id, i, 0, std::string(1 << 20, 'x'));
  server_->Stop(std::chrono::milliseconds(200));  // hangs, and the test times out, if a handler ignores it
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
  ASSERT_TRUE(Compact(**again, history, 200, 1).ok());
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

}  // namespace
}  // namespace rondo::coordinator
