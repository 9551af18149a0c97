// The coordinator's gRPC server: both services, health, reflection, limits and keepalive. Used by main and by tests.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/engine/engine.h"
#include "coordinator/rpc/attention_service.h"
#include "coordinator/rpc/group_service.h"
#include "coordinator/rpc/inference_service.h"

namespace rondo::coordinator {

struct ServerOptions {
  std::string listen = "127.0.0.1:7070";  // HOST:PORT; port 0 takes a free one
  UploadLimits uploads;
  uint64_t heartbeat_interval_us = 500000;
  std::string version;
};

class Server {
 public:
  // UNAVAILABLE if the address cannot be bound. `options.on_serving` of the engine is taken for the health service.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options, EngineOptions engine_options,
                                                       std::unique_ptr<Journal> journal, const JobHistory& history);
  ~Server();  // Stop(0)
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Engine& engine() { return *engine_; }
  const std::string& address() const { return address_; }  // with the real port

  // Ends calls still open after `patience` and waits for their handlers. Idempotent.
  void Stop(std::chrono::milliseconds patience);

 private:
  Server() = default;
  void SetServing(bool serving);

  std::string address_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<InferenceService> inference_;
  std::unique_ptr<AttentionService> attention_;
  std::unique_ptr<GroupService> group_;
  std::mutex health_mutex_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace rondo::coordinator
