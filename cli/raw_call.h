// A streaming call whose messages are bytes that lie where they lie: tensors are sent from the mapped file and received
// into gRPC's own buffers, without a protobuf object between. Used by the attend command's transfers.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace rondo::cli {

// A channel of its own to a rank's data server: one connection carries about what one core can copy.
std::shared_ptr<grpc::Channel> MakeDataChannel(const std::string& address);

// One thread, but for Cancel.
class RawCall {
 public:
  RawCall(std::shared_ptr<grpc::Channel> channel, const std::string& method, absl::Time deadline);
  ~RawCall();  // after Start, Finish must have been called

  // False: the call is over; Finish says why.
  bool Start();
  bool Write(const grpc::ByteBuffer& message);
  bool WritesDone();
  bool Read(grpc::ByteBuffer* message);
  grpc::Status Finish();

  void Cancel() { context_.TryCancel(); }  // any thread

 private:
  bool Next();

  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

}  // namespace rondo::cli
