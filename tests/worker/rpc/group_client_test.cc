// A rank whose coordinator accepts it and then stops reading, or reads late.

#include "worker/rpc/group_client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rondo/v1/group.grpc.pb.h"
#include "tests/testing/session_harness.h"
#include "worker/transport/loopback_transport.h"

namespace rondo::testing {
namespace {

// Welcomes one rank after its model header, then reads no further until it is told to.
class StubbornCoordinator final : public v1::Group::Service {
 public:
  StubbornCoordinator() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~StubbornCoordinator() override {
    Read();
    server_->Shutdown(std::chrono::system_clock::now());
  }
  grpc::Status Join(grpc::ServerContext*,
                    grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::RankMessage>* stream) override {
    v1::RankMessage message;
    while (stream->Read(&message) && !message.model_header().last()) {
    }
    v1::CoordinatorMessage welcome;
    welcome.set_epoch(1);
    welcome.mutable_welcome()->set_heartbeat_interval_us(20'000);
    stream->Write(welcome);
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return reading_; });
    }
    while (stream->Read(&message)) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (message.has_logits()) logits_bytes_ += message.logits().values().size();
      if (message.has_ended()) ended_ = true;
      changed_.notify_all();
    }
    return grpc::Status::OK;
  }
  void Read() {
    std::lock_guard<std::mutex> lock(mutex_);
    reading_ = true;
    changed_.notify_all();
  }
  // Logits bytes heard before JobEnded.
  uint64_t WaitForEnd() {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(2), [&] { return ended_; }));
    return logits_bytes_;
  }
  const std::string& address() const { return address_; }

 private:
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reading_ = false;
  bool ended_ = false;
  uint64_t logits_bytes_ = 0;
};

class GroupClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<GroupClient> Join(OutboxLimits limits) {
    const TestModel model = TinyModel(false).value();
    context_.model = model.model;
    context_.tokenizer = model.tokenizer;
    context_.kernels = SelectKernels("").value();
    context_.transport = transport_.get();
    context_.pool = &pool_;
    RankIdentity identity;
    identity.coordinator = coordinator_.address();
    auto client = std::make_unique<GroupClient>(
        context_, identity, commands_, [](const std::string&) {}, [] { return GroupClient::Vitals(); }, limits);
    const absl::Status joined = client->Join(absl::Now() + absl::Minutes(1));
    EXPECT_TRUE(joined.ok()) << joined;
    return client;
  }

  StubbornCoordinator coordinator_;
  LoopbackHub hub_{1};
  std::unique_ptr<Transport> transport_ = hub_.Connect(0);
  ThreadPool pool_{1};
  WorkerContext context_;
  CommandQueue commands_;
};

TEST_F(GroupClientTest, ACoordinatorThatDoesNotReadEndsTheEpochAndNotTheMemory) {
  constexpr uint64_t kLimit = 1 << 20;
  const auto client = Join({.bytes = kLimit, .patience = absl::Milliseconds(200)});
  const std::vector<float> row(64 << 10, 1.0f);
  // gRPC's own buffers take some megabytes; what is far beyond them and the outbox must have met the limit.
  int64_t step = 0;
  while (!commands_.closed() && step < 1000) client->Logits("job", step++, row);
  EXPECT_LT(step, 1000);
  ASSERT_TRUE(commands_.closed());
  EXPECT_EQ(commands_.close_reason().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(commands_.close_reason().message()),
            absl::StrCat("the coordinator at ", coordinator_.address(), " does not read: ", kLimit,
                         " bytes of reports have waited for 200ms"));
  EXPECT_FALSE(client->departure().orderly);
  // The step loop's ring operations end with it.
  EXPECT_FALSE(transport_->Broadcast(0, 1, {}, absl::Now() + absl::Minutes(1)).ok());
}

TEST_F(GroupClientTest, ACoordinatorThatReadsLateHearsEverything) {
  const auto client = Join({.bytes = 1 << 20, .patience = absl::Minutes(2)});
  const std::vector<float> row(64 << 10, 1.0f);
  constexpr int64_t kSteps = 200;  // 50 MiB
  std::thread job([&] {
    for (int64_t step = 0; step < kSteps; ++step) client->Logits("job", step, row);
    JobResult result;
    result.id = "job";
    client->Ended(result);
  });
  absl::SleepFor(absl::Milliseconds(300));
  coordinator_.Read();
  EXPECT_EQ(coordinator_.WaitForEnd(), kSteps * row.size() * sizeof(float));
  job.join();
  EXPECT_FALSE(commands_.closed());
}

TEST_F(GroupClientTest, SaysWhatItWaitsForWhenNobodyAnswers) {
  context_.transport = transport_.get();
  context_.pool = &pool_;
  RankIdentity identity;
  identity.coordinator = "127.0.0.1:1";  // no program of ours listens there
  GroupClient client(
      context_, identity, commands_, [](const std::string&) {}, [] { return GroupClient::Vitals(); });
  ::testing::internal::CaptureStderr();
  const absl::Status joined = client.Join(absl::Now() + absl::Seconds(3));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(joined.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(said.find("no coordinator answers at 127.0.0.1:1 yet; waiting until "), std::string::npos) << said;
}

}  // namespace
}  // namespace rondo::testing
