// Keeps gRPC's own log off stderr while a server starts: a port that is taken is one line of ours, not five of raw
// JSON. Used where the coordinator and the workers' data servers start.
#pragma once

#include <grpc/support/log.h>

#include <cstdlib>

namespace rondo {

// Does nothing where GRPC_VERBOSITY asks for the log. One at a time.
class QuietGrpc {
 public:
  QuietGrpc() {
    if (active_) gpr_set_log_function([](gpr_log_func_args*) {});
  }
  ~QuietGrpc() {
    if (active_) gpr_set_log_function(nullptr);  // back to gRPC's own
  }
  QuietGrpc(const QuietGrpc&) = delete;
  QuietGrpc& operator=(const QuietGrpc&) = delete;

 private:
  const bool active_ = std::getenv("GRPC_VERBOSITY") == nullptr;
};

}  // namespace rondo
