// Jobs from request to answer through the whole coordinator: streams, stops, deadlines, slow readers, drain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/coordinator/server_fixture.h"

namespace rondo::coordinator {
namespace {

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

}  // namespace
}  // namespace rondo::coordinator
