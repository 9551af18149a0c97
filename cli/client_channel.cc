#include "cli/client_channel.h"

#include "base/address.h"
#include <chrono>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace rondo::cli {
namespace {

constexpr std::chrono::seconds kConnectTimeout{3};
constexpr int kMaxMessageBytes = 16 << 20;

}  // namespace

void AddCoordinatorOption(CLI::App& command, std::string* address) {
  *address = kDefaultAddress;
  command.add_option("--coordinator", *address, "Address of the coordinator")
      ->envname("RONDO_COORDINATOR")
      ->type_name("HOST:PORT")
      ->check(CheckAddress)
      ->capture_default_str();
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // a long prefill sends little data
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // coordinators are named by address, not fetched from the web
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

Client::Client(const std::string& address)
    : address_(address), channel_(MakeChannel(address)), stub_(v1::Inference::NewStub(channel_)) {}

std::unique_ptr<Client> Client::Connect(const std::string& address) {
  std::unique_ptr<Client> client(new Client(address));
  if (client->channel_->WaitForConnected(std::chrono::system_clock::now() + kConnectTimeout)) return client;
  Fail(kNoCoordinator, absl::StrCat("no coordinator answers at ", address),
       "start one with: rondo up --workers 4 --model M.gguf   (or name another with --coordinator or "
       "RONDO_COORDINATOR)");
  return nullptr;
}

}  // namespace rondo::cli
