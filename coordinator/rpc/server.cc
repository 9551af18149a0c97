#include "coordinator/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/quiet_grpc.h"

namespace rondo::coordinator {
namespace {

// What either side may send in one message. Large things travel in pieces far below it.
constexpr int kMaxMessageBytes = 8 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options, EngineOptions engine_options,
                                                      std::unique_ptr<Journal> journal, const JobHistory& history) {
  std::unique_ptr<Server> self(new Server);
  const SchedulerOptions scheduler = engine_options.scheduler;
  engine_options.on_serving = [server = self.get()](bool serving) { server->SetServing(serving); };
  self->engine_ = std::make_unique<Engine>(std::move(engine_options), std::move(journal), history);
  self->inference_ = std::make_unique<InferenceService>(*self->engine_, options.uploads, options.version);
  self->attention_ = std::make_unique<AttentionService>(
      *self->engine_, AttentionTimes{scheduler.upload_wait_us, scheduler.attention_keep_us});
  self->group_ = std::make_unique<GroupService>(*self->engine_, options.heartbeat_interval_us);

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(self->inference_.get());
  builder.RegisterService(self->attention_.get());
  builder.RegisterService(self->group_.get());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  // A port that another coordinator listens on must be an error, not half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Silent clients are looked after every 20 s, and may themselves ping as often as every second during a prefill that
  // takes minutes; gRPC would answer that with GOAWAY too_many_pings.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 900);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  std::unique_ptr<grpc::Server> server = [&] {
    const QuietGrpc quiet;
    return builder.BuildAndStart();
  }();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options.listen,
                                               ": another program has the port, or the address is not this machine's; ",
                                               "name another with --listen (port 0 takes a free one)"));
  }
  self->address_ = absl::StrCat(options.listen.substr(0, options.listen.rfind(':')), ":", port);
  {
    const std::lock_guard lock(self->health_mutex_);
    self->server_ = std::move(server);
    self->server_->GetHealthCheckService()->SetServingStatus(false);
  }
  if (self->engine_->Cluster().running > 0) self->SetServing(true);
  return self;
}

Server::~Server() { Stop(std::chrono::milliseconds(0)); }

void Server::SetServing(bool serving) {
  const std::lock_guard lock(health_mutex_);
  if (server_ != nullptr) server_->GetHealthCheckService()->SetServingStatus(serving);
}

void Server::Stop(std::chrono::milliseconds patience) {
  grpc::Server* server = nullptr;
  {
    const std::lock_guard lock(health_mutex_);
    server = server_.get();
  }
  if (server != nullptr) {
    server->Shutdown(std::chrono::system_clock::now() + patience);
    server->Wait();
  }
  // The handlers are gone; the driver may still report to the health service until it is joined.
  engine_.reset();
  const std::lock_guard lock(health_mutex_);
  server_.reset();
}

}  // namespace rondo::coordinator
