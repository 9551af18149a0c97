// Attention jobs as the coordinator sees them: tickets, admission, clients and groups that leave, groups without a
// model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <limits>

#include "rondo/v1/attention.grpc.pb.h"
#include "tests/coordinator/server_fixture.h"

namespace rondo::coordinator {
namespace {

using testing::HasSubstr;

v1::AttentionSpec Spec(int64_t tokens) {
  v1::AttentionSpec spec;
  spec.set_q_tokens(tokens);
  spec.set_kv_tokens(tokens);
  spec.set_q_heads(1);
  spec.set_kv_heads(1);
  spec.set_head_dim(1);
  spec.set_causal(true);
  return spec;
}

class AttentionTest : public ServerTest {
 protected:
  // Two ranks of 1 MiB.
  std::vector<std::unique_ptr<FakeRank>> Start(bool model) {
    StartServer();
    attention_ =
        v1::AttentionService::NewStub(grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
    std::vector<std::unique_ptr<FakeRank>> ranks;
    for (uint32_t r = 0; r < 2; ++r) {
      v1::Hello hello = MakeHello("a", r, 2);
      hello.set_data_address("here:" + std::to_string(r));
      if (!model) {
        hello.mutable_fingerprint()->clear_model_sha256();
        hello.mutable_fingerprint()->clear_kv_block_bytes_per_token();
        hello.set_want_model_header(false);
      }
      ranks.push_back(std::make_unique<FakeRank>(server_->address(), hello, model ? TinyHeader() : ""));
    }
    for (auto& rank : ranks) EXPECT_GT(rank->WaitWelcome().epoch(), 0u);
    return ranks;
  }
  grpc::Status Open(const v1::AttentionSpec& spec, v1::AttentionTicket* ticket, int deadline_ms = 0) {
    grpc::ClientContext context;
    if (deadline_ms > 0) {
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms));
    }
    return attention_->Open(&context, spec, ticket);
  }
  v1::AttentionTicket OpenAndAnswer(FakeRank& rank, int64_t tokens = 600) {
    v1::AttentionTicket ticket;
    auto call = std::async(std::launch::async, [&] { return Open(Spec(tokens), &ticket); });
    rank.Opened(rank.WaitOpen().open_attention().job_id());
    const grpc::Status status = call.get();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return ticket;
  }
  grpc::Status Attend(const std::string& job, v1::AttendFinished* finished, int deadline_ms = 0) {
    grpc::ClientContext context;
    if (deadline_ms > 0) {
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms));
    }
    v1::AttendRequest request;
    request.set_job_id(job);
    const auto reader = attention_->Attend(&context, request);
    v1::AttendEvent event;
    while (reader->Read(&event)) {
      if (event.has_finished()) *finished = event.finished();
    }
    return reader->Finish();
  }
  bool Close(const std::string& job) {
    grpc::ClientContext context;
    v1::CloseAttentionRequest request;
    request.set_job_id(job);
    v1::CloseAttentionReply reply;
    EXPECT_TRUE(attention_->Close(&context, request, &reply).ok());
    return reply.was_open();
  }

  std::unique_ptr<v1::AttentionService::Stub> attention_;
};

bool IsCancel(const Message& m) { return m.has_cancel(); }
bool IsRun(const Message& m) { return m.has_run_attention(); }

TEST_F(AttentionTest, FromTicketToClose) {
  auto ranks = Start(false);
  const v1::AttentionTicket ticket = OpenAndAnswer(*ranks[0]);
  EXPECT_EQ(ticket.epoch(), ranks[0]->epoch());
  EXPECT_EQ(ticket.token().size(), 32u);
  ASSERT_EQ(ticket.ranks_size(), 2);
  EXPECT_EQ(ticket.ranks(1).data_address(), "here:1");
  // Every row is somebody's, once.
  int64_t q_rows = 0, kv_rows = 0;
  for (const v1::RankShare& share : ticket.ranks()) {
    for (const v1::RowRun& run : share.q_rows()) q_rows += run.end() - run.begin();
    for (const v1::RowRun& run : share.kv_rows()) kv_rows += run.end() - run.begin();
    EXPECT_GT(share.memory_bytes(), 0u);
  }
  EXPECT_EQ(q_rows, 600);
  EXPECT_EQ(kv_rows, 600);
  const Message open = ranks[1]->WaitOpen();
  EXPECT_EQ(open.open_attention().token(), ticket.token());
  EXPECT_EQ(open.open_attention().ring_size(), 2u);
  EXPECT_EQ(open.open_attention().spec().kv_tokens(), 600);
  EXPECT_EQ(open.open_attention().spec().scale(), 1.0f);
  EXPECT_EQ(GetJob(ticket.job_id()).kind(), "attention");
  EXPECT_EQ(GetJob(ticket.job_id()).stage(), "uploading");

  v1::AttendFinished finished;
  auto call = std::async(std::launch::async, [&] { return Attend(ticket.job_id(), &finished); });
  EXPECT_EQ(ranks[1]->WaitFor(IsRun).run_attention().job_id(), ticket.job_id());
  ranks[0]->Progress(ticket.job_id(), 0.5);
  ranks[0]->Ran(ticket.job_id());
  EXPECT_TRUE(call.get().ok());
  EXPECT_EQ(finished.run_us(), 1234u);
  EXPECT_EQ(finished.kernels(), "avx2");
  v1::AttendFinished again;
  EXPECT_TRUE(Attend(ticket.job_id(), &again).ok());
  EXPECT_EQ(again.SerializeAsString(), finished.SerializeAsString());

  EXPECT_TRUE(Close(ticket.job_id()));
  EXPECT_EQ(ranks[1]->WaitFor(IsCancel).cancel().job_id(), ticket.job_id());
  EXPECT_EQ(GetJob(ticket.job_id()).state(), "finished");
  EXPECT_FALSE(Close(ticket.job_id()));
}

TEST_F(AttentionTest, WhatCannotRunIsRefusedBeforeAnyRankHears) {
  auto ranks = Start(false);
  v1::AttentionTicket ticket;
  const auto refused = [&](const v1::AttentionSpec& spec, const char* what,
                           grpc::StatusCode code = grpc::INVALID_ARGUMENT) {
    const grpc::Status status = Open(spec, &ticket);
    EXPECT_EQ(status.error_code(), code) << what;
    EXPECT_THAT(status.error_message(), HasSubstr(what));
  };
  v1::AttentionSpec spec = Spec(-1);
  refused(spec, "q_tokens: -1");
  spec = Spec(10);
  spec.set_q_heads(3);
  spec.set_kv_heads(2);
  refused(spec, "kv_heads: 2 does not divide q_heads, which is 3");
  spec = Spec(10);
  spec.set_scale(std::numeric_limits<float>::infinity());
  refused(spec, "scale: inf");
  spec = Spec(10);
  spec.set_window(-4);
  refused(spec, "window: -4");
  spec = Spec(10);
  spec.add_sinks(1);
  spec.add_sinks(1);
  refused(spec, "sinks: 2 values");
  spec = Spec(10);
  for (const int64_t start : {0, 7, 3, 10}) spec.add_sequence_starts(start);
  refused(spec, "sequence_starts[2]: 3 is less than the one before, 7");
  spec = Spec(10);
  spec.set_strategy(static_cast<v1::Strategy>(9));
  refused(spec, "strategy: 9");
  spec = Spec(10);
  spec.set_ring_size(3);
  refused(spec, "ring_size: 3 ranks asked, the group has 2");
  refused(Spec(1000000), "need at least 16000000 bytes, 2 ranks have 2097152", grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ranks[0]->Count([](const Message& m) { return m.has_open_attention(); }), 0u);
}

TEST_F(AttentionTest, AttendOfWhatIsNotThere) {
  auto ranks = Start(false);
  v1::AttendFinished finished;
  EXPECT_EQ(Attend("nothing", &finished).error_code(), grpc::NOT_FOUND);
  const v1::AttentionTicket ticket = OpenAndAnswer(*ranks[0]);
  auto call = std::async(std::launch::async, [&] { return Attend(ticket.job_id(), &finished); });
  ranks[0]->WaitFor(IsRun);
  EXPECT_THAT(Attend(ticket.job_id(), &finished).error_message(), HasSubstr("has an Attend call already"));
  ranks[0]->Ran(ticket.job_id(), grpc::FAILED_PRECONDITION, "rank 1: K has 3 of 5 rows");
  const grpc::Status missing = call.get();
  EXPECT_EQ(missing.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(missing.error_message(), HasSubstr("3 of 5"));
  // It is open as before.
  call = std::async(std::launch::async, [&] { return Attend(ticket.job_id(), &finished); });
  ranks[0]->WaitFor(IsRun);
  ranks[0]->Ran(ticket.job_id());
  EXPECT_TRUE(call.get().ok());
}

TEST_F(AttentionTest, AClientThatLeavesWhileItRunsEndsTheJob) {
  auto ranks = Start(false);
  const v1::AttentionTicket ticket = OpenAndAnswer(*ranks[0]);
  v1::AttendFinished finished;
  EXPECT_EQ(Attend(ticket.job_id(), &finished, 300).error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_EQ(ranks[1]->WaitFor(IsCancel).cancel().job_id(), ticket.job_id());
  EXPECT_EQ(GetJob(ticket.job_id()).state(), "cancelled");
}

TEST_F(AttentionTest, TheDeadlineBoundsTheWaitForMemory) {
  auto ranks = Start(false);
  // Each job of 6,000 tokens takes about half a rank's memory.
  const v1::AttentionTicket first = OpenAndAnswer(*ranks[0], 6000);
  v1::AttentionTicket second;
  EXPECT_EQ(Open(Spec(7000), &second, 300).error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Close(first.job_id()));
  ranks[0]->WaitFor(IsCancel);
  ranks[0]->Ended(first.job_id(), "cancelled");
  EXPECT_EQ(OpenAndAnswer(*ranks[0], 7000).ranks_size(), 2);
}

TEST_F(AttentionTest, AClientThatLeftDuringItsUploadGivesItsMemoryBack) {
  auto ranks = Start(false);
  const v1::AttentionTicket ticket = OpenAndAnswer(*ranks[0]);
  ranks[1]->Left("another");  // known to nobody
  ranks[1]->Left(ticket.job_id());
  EXPECT_EQ(ranks[0]->WaitFor(IsCancel).cancel().job_id(), ticket.job_id());
  EXPECT_EQ(GetJob(ticket.job_id()).state(), "cancelled");
}

TEST_F(AttentionTest, OnceItAttendsAJobDoesNotEndByABrokenUpload) {
  auto ranks = Start(false);
  const v1::AttentionTicket ticket = OpenAndAnswer(*ranks[0]);
  v1::AttendFinished finished;
  auto call = std::async(std::launch::async, [&] { return Attend(ticket.job_id(), &finished); });
  ranks[0]->WaitFor(IsRun);
  ranks[0]->Left(ticket.job_id());  // before Ran on the same stream
  ranks[0]->Ran(ticket.job_id());
  EXPECT_TRUE(call.get().ok());
  EXPECT_EQ(GetJob(ticket.job_id()).stage(), "kept");
}

TEST_F(AttentionTest, ALostGroupIsSaidToBeLost) {
  auto ranks = Start(false);
  const v1::AttentionTicket ticket = OpenAndAnswer(*ranks[0]);
  v1::AttendFinished finished;
  auto call = std::async(std::launch::async, [&] { return Attend(ticket.job_id(), &finished); });
  ranks[0]->WaitFor(IsRun);
  ranks[1].reset();
  const grpc::Status lost = call.get();
  EXPECT_EQ(lost.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(lost.error_message(), HasSubstr("the tensors it held were lost: rank 1"));
  EXPECT_EQ(Attend(ticket.job_id(), &finished).error_code(), grpc::UNAVAILABLE);
}

TEST_F(AttentionTest, AGroupWithoutAModelSaysSo) {
  auto ranks = Start(false);
  Call call(*stub_, TextRequest("hi", 1));
  const grpc::Status status = call.Wait();
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("no model"));
  EXPECT_EQ(Cluster().groups(0).model(), "");
}

TEST_F(AttentionTest, AGroupWithAModelTakesBoth) {
  auto ranks = Start(true);
  const v1::AttentionTicket ticket = OpenAndAnswer(*ranks[0]);
  Call call(*stub_, TextRequest("hi", 1));
  const std::string id = ranks[0]->WaitStart().start().job_id();
  ranks[0]->Token(id, 0, 'x');
  ranks[0]->Ended(id, "length");
  EXPECT_TRUE(call.Wait().ok());
  EXPECT_TRUE(Close(ticket.job_id()));
}

}  // namespace
}  // namespace rondo::coordinator
