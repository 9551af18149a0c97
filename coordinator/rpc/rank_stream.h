// The sending half of one rank's stream: the engine puts messages in, a writer thread sends them, so a rank that does
// not read can hold up nobody.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "coordinator/engine/rank_link.h"
#include "rondo/v1/group.grpc.pb.h"

namespace rondo::coordinator {

class RankStream final : public RankLink {
 public:
  using Stream = grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::RankMessage>;

  // Both must live until Close has returned.
  RankStream(grpc::ServerContext* context, Stream* stream, uint64_t heartbeat_interval_us);
  ~RankStream() override;

  // The handler is about to return: nothing is sent any more. Later calls of the engine do nothing.
  void Close();

  void Welcome(uint64_t epoch) override;
  void Send(const GroupCommand& command) override;
  void Refuse(const absl::Status& why) override;
  void Leave(uint64_t epoch, const LeaveCommand& leave) override;
  void Kill() override;

 private:
  void Put(v1::CoordinatorMessage message);
  void WriterLoop(Stream* stream);

  const uint64_t heartbeat_interval_us_;
  std::mutex mutex_;
  std::condition_variable wake_;
  grpc::ServerContext* context_;  // null once closed
  std::deque<v1::CoordinatorMessage> outbox_;
  bool closed_ = false;
  std::thread writer_;
};

}  // namespace rondo::coordinator
