#include "cli/raw_call.h"

namespace rondo::cli {

std::shared_ptr<grpc::Channel> MakeDataChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  arguments.SetMaxReceiveMessageSize((4 << 20) + 65536);
  arguments.SetMaxSendMessageSize((4 << 20) + 65536);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

RawCall::RawCall(std::shared_ptr<grpc::Channel> channel, const std::string& method, absl::Time deadline)
    : channel_(std::move(channel)), stub_(channel_) {
  if (deadline != absl::InfiniteFuture()) context_.set_deadline(absl::ToChronoTime(deadline));
  stream_ = stub_.PrepareCall(&context_, method, &queue_);
}

RawCall::~RawCall() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool RawCall::Next() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

bool RawCall::Start() {
  stream_->StartCall(this);
  return Next();
}

bool RawCall::Write(const grpc::ByteBuffer& message) {
  stream_->Write(message, this);
  return Next();
}

bool RawCall::WritesDone() {
  stream_->WritesDone(this);
  return Next();
}

bool RawCall::Read(grpc::ByteBuffer* message) {
  stream_->Read(message, this);
  return Next();
}

grpc::Status RawCall::Finish() {
  grpc::Status status;
  stream_->Finish(&status, this);
  Next();
  return status;
}

}  // namespace rondo::cli
