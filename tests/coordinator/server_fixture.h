// The whole coordinator in this process, with ranks that only speak the protocol: what the server tests start from.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/rpc/server.h"
#include "model/gguf/gguf_file.h"
#include "tests/coordinator/fake_rank.h"
#include "tests/testing/tiny_llama.h"

namespace rondo::coordinator {

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

inline std::string TinyHeader() {
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

inline v1::GenerateRequest TextRequest(const std::string& text, uint32_t max_tokens) {
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

}  // namespace rondo::coordinator
