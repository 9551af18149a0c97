// The way to the coordinator that every client command shares: address, keepalive, message limits, connect timeout.
#pragma once

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/exit_codes.h"
#include "grpcpp/grpcpp.h"
#include "rondo/v1/inference.grpc.pb.h"

namespace rondo::cli {

inline constexpr char kDefaultAddress[] = "127.0.0.1:7070";

// Adds --coordinator ADDRESS, whose default is RONDO_COORDINATOR or kDefaultAddress.
void AddCoordinatorOption(CLI::App& command, std::string* address);

// Keepalive every 20 s, as the coordinator permits; messages up to 16 MiB each way (a step's logits fit many times).
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address);

class Client {
 public:
  // Null after printing why and what to do (exit with kNoCoordinator) when nothing answers within 3 s.
  static std::unique_ptr<Client> Connect(const std::string& address);

  v1::Inference::Stub& stub() { return *stub_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  const std::string& address() const { return address_; }
  bool connected() const { return channel_->GetState(false) == GRPC_CHANNEL_READY; }

  // FailRpc with this client's address and state.
  ExitCode Report(const grpc::Status& status) const { return FailRpc(status, connected(), address_); }

 private:
  explicit Client(const std::string& address);

  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Inference::Stub> stub_;
};

}  // namespace rondo::cli
