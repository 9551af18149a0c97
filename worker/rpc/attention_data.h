// One rank's data server: pieces of attention jobs' tensors come in and go out here, past the coordinator; made by
// run_rank before the rank joins.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/session/attention_store.h"

namespace rondo {

class AttentionDataServer {
 public:
  // `listen` is HOST:PORT; port 0 takes a free one. `store` outlives the server. UNAVAILABLE if it cannot be bound.
  static absl::StatusOr<std::unique_ptr<AttentionDataServer>> Start(const std::string& listen, AttentionStore& store);
  // Ends the calls that are open and waits for their handlers.
  ~AttentionDataServer();
  AttentionDataServer(const AttentionDataServer&) = delete;
  AttentionDataServer& operator=(const AttentionDataServer&) = delete;

  // Where clients reach it: with the real port, and this host's name where it listens on all addresses.
  const std::string& address() const { return address_; }

 private:
  struct Server;  // gRPC types stay in the .cc
  AttentionDataServer();

  std::string address_;
  std::unique_ptr<Server> server_;
};

}  // namespace rondo
