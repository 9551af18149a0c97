#include "worker/rpc/attention_data.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/piece_frame.h"
#include "proto/quiet_grpc.h"
#include "rondo/v1/attention.grpc.pb.h"
#include "worker/rpc/process_facts.h"

namespace rondo {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;  // the size gRPC moves fastest
constexpr int kMaxMessageBytes = (4 << 20) + 65536;

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

template <typename Message>
grpc::ByteBuffer ToBytes(const Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// Takes pieces until the client ends or one is wrong. The bytes go from gRPC's buffers to the tensor's memory.
class PutCall final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  PutCall(const AttentionStore& store, const grpc::CallbackServerContext& context, grpc::ByteBuffer* response)
      : store_(store), context_(context), response_(response) {
    StartRead(&message_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      v1::PutReply reply;
      reply.set_bytes(bytes_);
      *response_ = ToBytes(reply);
      return Finish(grpc::Status::OK);
    }
    const absl::Status taken = Take();
    message_.Clear();
    if (!taken.ok()) return Finish(ToGrpc(taken));
    StartRead(&message_);
  }

  // Only now it is certain how the call ended: a client that is killed ends its stream like one that has sent all, but
  // the reply does not reach it.
  void OnDone() override {
    if (job_ != nullptr) job_->uploads().Ended(context_.IsCancelled(), absl::Now());
    delete this;
  }

 private:
  absl::Status Take() {
    slices_.clear();
    if (!message_.Dump(&slices_).ok()) return absl::InternalError("a piece could not be read");
    parts_.clear();
    for (const grpc::Slice& slice : slices_) parts_.emplace_back(slice.begin(), slice.size());
    const absl::StatusOr<PieceFrame> frame = ParsePieceFrame(parts_);
    if (!frame.ok()) return frame.status();
    const PieceHead& head = frame->head;
    if (head.has_job) {
      auto job = store_.Find(head.job.job_id, head.job.token, head.job.epoch);
      if (!job.ok()) return job.status();
      if (job_ != nullptr) job_->uploads().Ended(/*broken=*/false, absl::Now());
      job_ = *std::move(job);
      job_->uploads().Began();
    }
    if (job_ == nullptr) return absl::InvalidArgumentError("job: the first piece must name it");
    if (head.tensor < v1::Q || head.tensor > v1::LSE) {
      return absl::InvalidArgumentError(absl::StrCat("tensor: ", head.tensor, " is not known"));
    }
    if (head.type != v1::F32 && head.type != v1::BF16) {
      return absl::InvalidArgumentError(absl::StrCat("type: ", head.type, " is not F32 (0) or BF16 (1)"));
    }
    Cut(frame->data_begin, frame->data_bytes);
    bytes_ += frame->data_bytes;
    return job_->Put(static_cast<JobTensor>(head.tensor), head.first_row,
                     head.type == v1::BF16 ? KvType::kBf16 : KvType::kF32, parts_);
  }

  // Leaves bytes [begin, begin + size) of the message in parts_.
  void Cut(uint64_t begin, uint64_t size) {
    size_t kept = 0;
    for (absl::Span<const uint8_t> part : parts_) {
      const uint64_t skip = std::min<uint64_t>(begin, part.size());
      begin -= skip;
      part.remove_prefix(skip);
      part = part.subspan(0, size);
      size -= part.size();
      if (!part.empty()) parts_[kept++] = part;
    }
    parts_.resize(kept);
  }

  const AttentionStore& store_;
  const grpc::CallbackServerContext& context_;
  grpc::ByteBuffer* const response_;
  grpc::ByteBuffer message_;
  std::vector<grpc::Slice> slices_;
  std::vector<absl::Span<const uint8_t>> parts_;
  std::shared_ptr<AttentionTensors> job_;
  uint64_t bytes_ = 0;
};

// Sends rows as pieces whose bytes are the tensor's own memory.
class GetCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  GetCall(const AttentionStore& store, const grpc::ByteBuffer& request) {
    if (const absl::Status ready = Prepare(store, request); !ready.ok()) {
      Finish(ToGrpc(ready));
    } else {
      Next();
    }
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client left"));
    Next();
  }

  void OnDone() override { delete this; }

 private:
  absl::Status Prepare(const AttentionStore& store, grpc::ByteBuffer bytes) {
    v1::GetRequest request;
    if (!grpc::SerializationTraits<v1::GetRequest>::Deserialize(&bytes, &request).ok()) {
      return absl::InvalidArgumentError("not a GetRequest");
    }
    auto job = store.Find(request.job().job_id(), request.job().token(), request.job().epoch());
    if (!job.ok()) return job.status();
    if (request.tensor() < v1::Q || request.tensor() > v1::LSE) {
      return absl::InvalidArgumentError(absl::StrCat("tensor: ", static_cast<int>(request.tensor()), " is not known"));
    }
    auto rows = (*job)->Get(static_cast<JobTensor>(request.tensor()), request.first_row(), request.rows());
    if (!rows.ok()) return rows.status();
    job_ = *std::move(job);
    rows_ = *rows;
    head_.tensor = request.tensor();
    head_.first_row = request.first_row();
    piece_rows_ = std::max<int64_t>(1, kPieceBytes / (rows_.row_elements * 4));
    return absl::OkStatus();
  }

  void Next() {
    if (rows_.count == 0) return Finish(grpc::Status::OK);
    const int64_t count = std::min(piece_rows_, rows_.count);
    const size_t bytes = static_cast<size_t>(count) * rows_.row_elements * 4;
    // The job's memory stays until gRPC has let go of the slice.
    const grpc::Slice slices[] = {grpc::Slice(PieceFramePrefix(head_, bytes)),
                                  grpc::Slice(
                                      const_cast<float*>(rows_.data), bytes,
                                      [](void* job) { delete static_cast<std::shared_ptr<AttentionTensors>*>(job); },
                                      new std::shared_ptr<AttentionTensors>(job_))};
    message_ = grpc::ByteBuffer(slices, 2);
    rows_.data += count * rows_.row_elements;
    rows_.count -= count;
    head_.first_row += count;
    StartWrite(&message_);
  }

  std::shared_ptr<AttentionTensors> job_;
  AttentionTensors::Rows rows_;
  PieceHead head_;
  int64_t piece_rows_ = 1;
  grpc::ByteBuffer message_;
};

using RawService = v1::AttentionData::WithRawCallbackMethod_Put<
    v1::AttentionData::WithRawCallbackMethod_Get<v1::AttentionData::Service>>;

class Service final : public RawService {
 public:
  explicit Service(const AttentionStore& store) : store_(store) {}

  grpc::ServerReadReactor<grpc::ByteBuffer>* Put(grpc::CallbackServerContext* context,
                                                 grpc::ByteBuffer* response) override {
    return new PutCall(store_, *context, response);
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Get(grpc::CallbackServerContext*,
                                                  const grpc::ByteBuffer* request) override {
    return new GetCall(store_, *request);
  }

 private:
  const AttentionStore& store_;
};

std::string Announced(const std::string& listen, int port) {
  const std::string host = listen.substr(0, listen.rfind(':'));
  const bool any = host.empty() || host == "0.0.0.0" || host == "[::]";
  return absl::StrCat(any ? HostName() : host, ":", port);
}

}  // namespace

struct AttentionDataServer::Server {
  explicit Server(const AttentionStore& store) : service(store) {}
  Service service;
  std::unique_ptr<grpc::Server> grpc;
};

AttentionDataServer::AttentionDataServer() = default;

absl::StatusOr<std::unique_ptr<AttentionDataServer>> AttentionDataServer::Start(const std::string& listen,
                                                                                AttentionStore& store) {
  std::unique_ptr<AttentionDataServer> self(new AttentionDataServer);
  self->server_ = std::make_unique<Server>(store);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&self->server_->service);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 900);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  {
    const QuietGrpc quiet;
    self->server_->grpc = builder.BuildAndStart();
  }
  if (self->server_->grpc == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("--data-listen: cannot listen on ", listen));
  }
  self->address_ = Announced(listen, port);
  return self;
}

AttentionDataServer::~AttentionDataServer() {
  if (server_ == nullptr || server_->grpc == nullptr) return;
  server_->grpc->Shutdown(std::chrono::system_clock::now());
  server_->grpc->Wait();
}

}  // namespace rondo
