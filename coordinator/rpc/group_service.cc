#include "coordinator/rpc/group_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/rpc/rank_stream.h"

namespace rondo::coordinator {
namespace {

// Llama 3's header, with its 128,000 tokens and 280,000 merges, has 8 MB.
constexpr size_t kMaxHeaderBytes = 256u << 20;

RankHello FromProto(const v1::Hello& from) {
  RankHello hello;
  hello.launch_id = from.launch_id();
  hello.rank = from.rank();
  hello.world_size = from.world_size();
  const v1::Fingerprint& f = from.fingerprint();
  hello.fingerprint = {f.version(),
                       f.model_sha256(),
                       f.compute(),
                       f.kv_type(),
                       f.kernel_family(),
                       f.prefill_chunk(),
                       f.kv_block_bytes_per_token(),
                       f.libraries()};
  hello.host = from.host();
  hello.pid = from.pid();
  hello.kernels = from.kernels();
  hello.threads = from.threads();
  hello.cpus = from.cpus();
  hello.kv_memory_bytes = from.kv_memory_bytes();
  hello.transport = from.transport();
  hello.data_address = from.data_address();
  return hello;
}

EndedEvent FromProto(uint64_t epoch, const v1::JobEnded& from) {
  EndedEvent ended;
  ended.epoch = epoch;
  ended.job_id = from.job_id();
  ended.finish_reason = from.finish_reason();
  ended.error = from.error();
  ended.error_code = from.error_code();
  ended.prefill_us = from.prefill_us();
  ended.decode_us = from.decode_us();
  ended.steps = from.steps();
  ended.digest = from.digest();
  ended.strategy = from.strategy();
  ended.exchanged_bytes = from.exchanged_bytes();
  ended.kv_bytes_per_worker.assign(from.kv_bytes_per_worker().begin(), from.kv_bytes_per_worker().end());
  return ended;
}

RanEvent FromProto(uint64_t epoch, const v1::AttentionRan& from) {
  RanEvent ran;
  ran.epoch = epoch;
  const v1::AttendFinished& f = from.figures();
  ran.job_id = f.job_id();
  ran.error = absl::Status(static_cast<absl::StatusCode>(from.error_code()), from.error());
  ran.result.run_us = f.run_us();
  ran.result.workers = f.workers();
  ran.result.strategy = f.strategy();
  ran.result.strategy_reason = f.strategy_reason();
  ran.result.pass_kv_us = f.pass_kv_us();
  ran.result.pass_q_us = f.pass_q_us();
  ran.result.exchanged_bytes = f.exchanged_bytes();
  ran.result.skipped_steps = f.skipped_steps();
  ran.result.memory_bytes_per_worker.assign(f.memory_bytes_per_worker().begin(), f.memory_bytes_per_worker().end());
  return ran;
}

// One rank's incoming messages, in order.
class Reader {
 public:
  Reader(Engine& engine, ConnectionId connection, std::string sha256)
      : engine_(engine), connection_(connection), sha256_(std::move(sha256)) {}

  void Take(const v1::RankMessage& message) {
    const uint64_t epoch = message.epoch();
    switch (message.message_case()) {
      case v1::RankMessage::kModelHeader:
        return TakeHeader(message.model_header());
      case v1::RankMessage::kHeartbeat: {
        const v1::Heartbeat& beat = message.heartbeat();
        return engine_.Heard(
            connection_,
            RankVitals{beat.kv_used_bytes(), beat.resident_bytes(), beat.applied_number(), beat.progress()},
            {beat.fed_jobs().begin(), beat.fed_jobs().end()}, {beat.left_jobs().begin(), beat.left_jobs().end()});
      }
      case v1::RankMessage::kProgress:
        return Report(epoch, ProgressEvent{epoch, message.progress().job_id(), message.progress().fraction()});
      case v1::RankMessage::kToken: {
        const v1::TokenDrawn& token = message.token();
        return Report(epoch, TokenEvent{epoch, token.job_id(), token.step(), token.token(), token.is_end()});
      }
      case v1::RankMessage::kLogits: {
        const v1::JobLogits& logits = message.logits();
        return Report(epoch, LogitsEvent{epoch, logits.job_id(), logits.step(), logits.offset(), logits.values()});
      }
      case v1::RankMessage::kEnded:
        return Report(epoch, FromProto(epoch, message.ended()));
      case v1::RankMessage::kAttentionOpened:
        return Report(epoch, OpenedEvent{epoch, message.attention_opened().job_id()});
      case v1::RankMessage::kAttentionRan:
        return Report(epoch, FromProto(epoch, message.attention_ran()));
      case v1::RankMessage::kHello:
      case v1::RankMessage::MESSAGE_NOT_SET:
        return;  // a second Hello, or a message of a later version
    }
  }

 private:
  void Report(uint64_t epoch, EventBody body) { engine_.Report(connection_, epoch, std::move(body)); }

  void TakeHeader(const v1::ModelHeader& piece) {
    if (header_done_) return;
    if (!piece.file_name().empty()) file_name_ = piece.file_name();
    if (header_.size() + piece.data().size() > kMaxHeaderBytes) {
      header_done_ = true;
      return engine_.ModelRead(
          connection_, absl::InvalidArgumentError(absl::StrCat("model header: more than ", kMaxHeaderBytes, " bytes")));
    }
    header_ += piece.data();
    if (!piece.last()) return;
    header_done_ = true;
    engine_.ModelRead(connection_, ReadModelInfo(std::exchange(header_, {}), file_name_, sha256_));
  }

  Engine& engine_;
  const ConnectionId connection_;
  const std::string sha256_;
  std::string header_;
  std::string file_name_;
  bool header_done_ = false;
};

}  // namespace

grpc::Status GroupService::Join(grpc::ServerContext* context,
                                grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::RankMessage>* stream) {
  v1::RankMessage message;
  if (!stream->Read(&message) || !message.has_hello()) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the first message of a rank must be Hello");
  }
  const auto link = std::make_shared<RankStream>(context, stream, heartbeat_interval_us_);
  const ConnectionId connection = engine_.Connect(link);
  engine_.Join(connection, FromProto(message.hello()));
  Reader reader(engine_, connection, message.hello().fingerprint().model_sha256());
  while (stream->Read(&message)) reader.Take(message);
  engine_.Gone(connection, "closed its stream");
  link->Close();
  return grpc::Status::OK;
}

}  // namespace rondo::coordinator
