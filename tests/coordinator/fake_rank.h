// A rank as the coordinator sees it, without a model: joins over loopback gRPC, beats, and says what a test tells it
// to.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rondo/v1/group.grpc.pb.h"

namespace rondo::coordinator {

v1::Hello MakeHello(const std::string& launch, uint32_t rank, uint32_t world);

class FakeRank {
 public:
  // Dials in and says hello; rank 0 sends `header` after it.
  FakeRank(const std::string& address, const v1::Hello& hello, const std::string& header);
  ~FakeRank();

  using Message = v1::CoordinatorMessage;
  // The first message not yet taken for which `wanted` holds; a default one if none comes in 10 s.
  Message WaitFor(const std::function<bool(const Message&)>& wanted);
  Message WaitWelcome();  // and keeps the epoch
  Message WaitStart();
  size_t Count(const std::function<bool(const Message&)>& wanted);
  bool WaitClosed();  // the coordinator ended the stream

  void Token(const std::string& job, uint32_t step, int32_t token, bool end = false, int64_t epoch_offset = 0);
  void Progress(const std::string& job, double fraction);
  void Logits(const std::string& job, uint32_t step, uint32_t offset, const std::string& values);
  void Ended(const std::string& job, const std::string& reason);
  Message WaitOpen() {
    return WaitFor([](const Message& m) { return m.has_open_attention(); });
  }
  void Opened(const std::string& job);
  void Ran(const std::string& job, int error_code = 0, const std::string& error = "");
  // A heartbeat that says that the job's client is gone.
  void Left(const std::string& job);
  void Freeze() { beating_ = false; }
  uint64_t epoch() const { return epoch_; }

 private:
  void Write(v1::RankMessage message, int64_t epoch_offset = 0);

  grpc::ClientContext context_;
  std::unique_ptr<v1::Group::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::RankMessage, v1::CoordinatorMessage>> stream_;
  std::mutex write_mutex_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Message> inbox_;
  bool closed_ = false;
  bool stop_ = false;
  std::atomic<uint64_t> epoch_{0};
  std::atomic<bool> beating_{true};
  std::thread reader_, heart_;
};

}  // namespace rondo::coordinator
