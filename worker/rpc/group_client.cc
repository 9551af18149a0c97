#include "worker/rpc/group_client.h"

#include <grpcpp/grpcpp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "rondo/v1/group.grpc.pb.h"
#include "worker/rpc/command_from_proto.h"
#include "worker/rpc/process_facts.h"
#include "worker/session/attention_store.h"

namespace rondo {
namespace {

constexpr size_t kHeaderPieceBytes = 256 << 10;    // the size gRPC moves fastest
constexpr size_t kLogitsPieceElements = 64 << 10;  // 256 KiB
constexpr absl::Duration kDrainPatience = absl::Seconds(2);
// Whoever starts a worker before its coordinator must see what it waits for.
constexpr absl::Duration kFirstWord = absl::Seconds(2);
constexpr absl::Duration kNextWord = absl::Seconds(10);
// A step loop that has not come back by then never will, and somebody waits to start the group again.
constexpr absl::Duration kStuckPatience = absl::Seconds(10);
constexpr int kMaxMessageBytes = 8 << 20;  // prompt slices and logits are far smaller

}  // namespace

struct GroupClient::Stream {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Group::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::RankMessage, v1::CoordinatorMessage>> wire;

  explicit Stream(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    arguments.SetMaxSendMessageSize(kMaxMessageBytes);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    // While it waits for its coordinator; gRPC's own pauses grow to two minutes.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
    // Ranks of one process (loopback) each keep a connection of their own.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    stub = v1::Group::NewStub(channel);
  }
};

GroupClient::GroupClient(const WorkerContext& context, RankIdentity identity, CommandQueue& commands,
                         std::function<void(const std::string&)> on_cancel, std::function<Vitals()> vitals,
                         OutboxLimits limits)
    : context_(context),
      identity_(std::move(identity)),
      commands_(commands),
      on_cancel_(std::move(on_cancel)),
      vitals_(std::move(vitals)),
      outbox_(limits) {}

GroupClient::~GroupClient() {
  Leave(absl::Now());
  for (std::thread* thread : {&reader_, &writer_, &heart_}) {
    if (thread->joinable()) thread->join();
  }
}

absl::Status GroupClient::Join(absl::Time deadline) {
  stream_ = std::make_unique<Stream>(identity_.coordinator);
  if (!WaitForCoordinator(deadline)) {
    return absl::UnavailableError(absl::StrCat("no coordinator answers at ", identity_.coordinator,
                                               "; start one with: rondo-coordinator --listen ", identity_.coordinator));
  }
  stream_->wire = stream_->stub->Join(&stream_->context);
  writer_ = std::thread([this] { WriteLoop(); });  // first: a model's header may be larger than the outbox
  SendHello();
  if (context_.transport->rank() == 0 && context_.model != nullptr) SendModelHeader();
  reader_ = std::thread([this] { ReadLoop(); });
  std::unique_lock<std::mutex> lock(mutex_);
  const bool answered =
      changed_.wait_until(lock, absl::ToChronoTime(deadline), [&] { return welcomed_ || departure_; });
  if (departure_) return departure_->reason;
  if (!answered) return absl::DeadlineExceededError("the group is not complete: not all ranks have joined");
  heart_ = std::thread([this] { HeartbeatLoop(); });
  return absl::OkStatus();
}

bool GroupClient::WaitForCoordinator(absl::Time deadline) {
  const absl::Time began = absl::Now();
  for (absl::Time next = began + kFirstWord;; next += kNextWord) {
    if (stream_->channel->WaitForConnected(absl::ToChronoTime(std::min(next, deadline)))) return true;
    if (next >= deadline) return false;
    LogInfo("no coordinator answers at ", identity_.coordinator, " yet; waiting until ",
            absl::FormatTime("%H:%M:%S", deadline, absl::LocalTimeZone()), ", ",
            absl::FormatDuration(absl::Ceil(deadline - absl::Now(), absl::Seconds(1))), " more");
  }
}

Departure GroupClient::departure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return departure_.value_or(Departure{absl::UnknownError("the rank stopped by itself"), false});
}

void GroupClient::Leave(absl::Time deadline) {
  if (stream_ == nullptr || stream_->wire == nullptr) return;
  std::unique_lock<std::mutex> lock(mutex_);
  stopping_ = true;
  outbox_.Close();
  changed_.notify_all();
  changed_.wait_until(lock, absl::ToChronoTime(deadline), [&] { return writer_done_; });
  lock.unlock();
  stream_->context.TryCancel();
}

void GroupClient::SendHello() {
  v1::RankMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_launch_id(identity_.launch_id);
  hello.set_rank(context_.transport->rank());
  hello.set_world_size(context_.transport->world_size());
  v1::Fingerprint& fingerprint = *hello.mutable_fingerprint();
  fingerprint.set_version(RONDO_VERSION);
  fingerprint.set_model_sha256(identity_.model_sha256);
  fingerprint.set_compute(std::string(Name(context_.compute)));
  fingerprint.set_kv_type(std::string(Name(context_.kv_type)));
  fingerprint.set_kernel_family(std::string(KernelFamily(context_.kernels.name)));
  fingerprint.set_libraries(identity_.libraries);
  fingerprint.set_prefill_chunk(context_.prefill_chunk);
  if (context_.model != nullptr) {
    const ModelConfig& config = context_.model->config;
    fingerprint.set_kv_block_bytes_per_token(
        KvBlockBytes(ShapeOf(config, *context_.kernels.attention, context_.kv_type)) / kBlockTokens * config.layers);
  }
  hello.set_host(HostName());
  hello.set_pid(getpid());
  hello.set_kernels(std::string(context_.kernels.name));
  hello.set_threads(context_.pool->threads());
  hello.set_cpus(identity_.cpus);
  hello.set_kv_memory_bytes(identity_.kv_memory_bytes);
  hello.set_transport(identity_.transport);
  hello.set_want_model_header(context_.transport->rank() == 0 && context_.model != nullptr);
  hello.set_data_address(identity_.data_address);
  Report(std::move(message));
}

void GroupClient::SendModelHeader() {
  const absl::Span<const std::byte> header = context_.model->file->header_bytes();
  for (size_t at = 0; at < header.size(); at += kHeaderPieceBytes) {
    v1::RankMessage message;
    v1::ModelHeader& piece = *message.mutable_model_header();
    const size_t size = std::min(kHeaderPieceBytes, header.size() - at);
    piece.set_data(header.data() + at, size);
    piece.set_last(at + size == header.size());
    if (at == 0) piece.set_file_name(identity_.model_name);
    Report(std::move(message));
  }
}

void GroupClient::ReadLoop() {
  pthread_setname_np(pthread_self(), "rondo-commands");
  CommandAssembler assembler;
  v1::CoordinatorMessage message;
  while (stream_->wire->Read(&message)) {
    if (message.has_welcome()) {
      if (context_.attention != nullptr) context_.attention->SetEpoch(message.epoch());
      std::lock_guard<std::mutex> lock(mutex_);
      epoch_ = message.epoch();
      if (message.welcome().heartbeat_interval_us() > 0) {
        heartbeat_interval_ = absl::Microseconds(message.welcome().heartbeat_interval_us());
      }
      welcomed_ = true;
      changed_.notify_all();
    } else if (message.has_refused()) {
      Depart(absl::Status(static_cast<absl::StatusCode>(message.refused().code()), message.refused().reason()), false);
    } else if (message.has_leave()) {
      Depart(absl::UnavailableError(message.leave().reason()), message.leave().drain());
    } else {
      if (message.has_cancel()) on_cancel_(message.cancel().job_id());
      absl::StatusOr<Command> command = assembler.Take(message);
      absl::Status status = command.ok() ? commands_.Push(*std::move(command)) : command.status();
      if (!status.ok()) Depart(status, false);
    }
  }
  Depart(absl::UnavailableError(absl::StrCat("the coordinator at ", identity_.coordinator, " closed the stream")),
         false);
}

void GroupClient::Depart(absl::Status reason, bool orderly) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (departure_) return;  // the stream's end follows a Leave
    departure_ = Departure{reason, orderly};
    changed_.notify_all();
  }
  commands_.Close(reason);
  if (!orderly) outbox_.Close();  // nobody listens any more, and nobody may wait for room
  // Ends whatever the step loop waits for. When the coordinator drains, all ranks take in the same last commands and
  // stop by themselves.
  if (!orderly) context_.transport->Abort(std::move(reason));
}

void GroupClient::WriteLoop() {
  pthread_setname_np(pthread_self(), "rondo-reports");
  while (std::optional<v1::RankMessage> message = outbox_.Take()) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      message->set_epoch(epoch_);
    }
    if (!stream_->wire->Write(*message)) break;  // the reader learns why
  }
  outbox_.Close();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    writer_done_ = true;
    changed_.notify_all();
  }
  stream_->wire->WritesDone();
}

void GroupClient::HeartbeatLoop() {
  pthread_setname_np(pthread_self(), "rondo-heart");
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_ && !departure_) {
    lock.unlock();
    const Vitals vitals = vitals_();
    v1::RankMessage message;
    message.mutable_heartbeat()->set_kv_used_bytes(vitals.kv_used_bytes);
    message.mutable_heartbeat()->set_applied_number(vitals.applied_number);
    message.mutable_heartbeat()->set_progress(vitals.progress);
    message.mutable_heartbeat()->set_resident_bytes(ResidentBytes());
    if (context_.attention != nullptr) {
      for (std::string& job : context_.attention->TakeFed()) message.mutable_heartbeat()->add_fed_jobs(std::move(job));
      for (std::string& job : context_.attention->Left(absl::Now())) {
        message.mutable_heartbeat()->add_left_jobs(std::move(job));
      }
    }
    Report(std::move(message));
    lock.lock();
    changed_.wait_for(lock, absl::ToChronoNanoseconds(heartbeat_interval_), [&] { return stopping_ || departure_; });
  }
  if (!stopping_ && departure_->orderly) {
    // Ranks that drain end by themselves, unless the grace ran out in the middle of a job and a peer has left already.
    changed_.wait_for(lock, absl::ToChronoNanoseconds(kDrainPatience), [&] { return stopping_; });
    const absl::Status reason = departure_->reason;
    const bool stuck = !stopping_;
    lock.unlock();
    if (stuck) context_.transport->Abort(reason);
    lock.lock();
  }
  const bool back = changed_.wait_for(lock, absl::ToChronoNanoseconds(kStuckPatience), [&] { return stopping_; });
  if (back) return;
  LogError("rank ", context_.transport->rank(), " does not stop: ", std::string(departure_->reason.message()));
  ::_exit(1);
}

void GroupClient::Report(v1::RankMessage message) {
  if (outbox_.Put(std::move(message))) return;
  Depart(absl::ResourceExhaustedError(
             absl::StrCat("the coordinator at ", identity_.coordinator, " does not read: ", outbox_.limits().bytes,
                          " bytes of reports have waited for ", absl::FormatDuration(outbox_.limits().patience))),
         false);
}

void GroupClient::Progress(const std::string& job, double fraction) {
  v1::RankMessage message;
  message.mutable_progress()->set_job_id(job);
  message.mutable_progress()->set_fraction(fraction);
  Report(std::move(message));
}

void GroupClient::Logits(const std::string& job, int64_t step, absl::Span<const float> logits) {
  for (size_t at = 0; at < logits.size(); at += kLogitsPieceElements) {
    v1::RankMessage message;
    v1::JobLogits& piece = *message.mutable_logits();
    const size_t count = std::min(kLogitsPieceElements, logits.size() - at);
    piece.set_job_id(job);
    piece.set_step(step);
    piece.set_offset(at);
    piece.set_values(logits.data() + at, count * sizeof(float));
    Report(std::move(message));
  }
}

void GroupClient::Token(const std::string& job, int64_t step, int32_t token, bool is_end) {
  v1::RankMessage message;
  v1::TokenDrawn& drawn = *message.mutable_token();
  drawn.set_job_id(job);
  drawn.set_step(step);
  drawn.set_token(token);
  drawn.set_is_end(is_end);
  Report(std::move(message));
}

void GroupClient::Ended(const JobResult& result) {
  v1::RankMessage message;
  v1::JobEnded& ended = *message.mutable_ended();
  ended.set_job_id(result.id);
  ended.set_finish_reason(result.finish_reason);
  ended.set_error(std::string(result.error.message()));
  ended.set_error_code(static_cast<int32_t>(result.error.code()));
  ended.set_steps(result.steps);
  ended.set_digest(result.digest);
  ended.set_prefill_us(result.prefill_us);
  ended.set_decode_us(result.decode_us);
  ended.set_strategy(result.strategy);
  ended.set_exchanged_bytes(result.exchanged_bytes);
  for (uint64_t bytes : result.kv_bytes_per_worker) ended.add_kv_bytes_per_worker(bytes);
  Report(std::move(message));
}

void GroupClient::AttentionOpened(const std::string& job) {
  v1::RankMessage message;
  message.mutable_attention_opened()->set_job_id(job);
  Report(std::move(message));
}

void GroupClient::AttentionRan(const AttentionFigures& figures) {
  v1::RankMessage message;
  v1::AttentionRan& ran = *message.mutable_attention_ran();
  ran.set_error_code(static_cast<int32_t>(figures.error.code()));
  ran.set_error(std::string(figures.error.message()));
  v1::AttendFinished& to = *ran.mutable_figures();
  to.set_job_id(figures.id);
  to.set_run_us(figures.run_us);
  to.set_workers(figures.workers);
  to.set_strategy(figures.strategy);
  to.set_strategy_reason(figures.strategy_reason);
  to.set_pass_kv_us(figures.pass_kv_us);
  to.set_pass_q_us(figures.pass_q_us);
  to.set_exchanged_bytes(figures.exchanged_bytes);
  to.set_skipped_steps(figures.skipped_steps);
  for (uint64_t bytes : figures.memory_bytes_per_worker) to.add_memory_bytes_per_worker(bytes);
  Report(std::move(message));
}

}  // namespace rondo
