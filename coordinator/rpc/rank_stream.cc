#include "coordinator/rpc/rank_stream.h"

#include <pthread.h>

#include <utility>

#include "coordinator/journal/result_proto.h"
#include "proto/attention_spec.h"

namespace rondo::coordinator {
namespace {

void Fill(const PromptSliceCommand& from, v1::CoordinatorMessage* to) {
  v1::PromptIds* ids = to->mutable_prompt_ids();
  ids->set_job_id(from.job_id);
  ids->mutable_ids()->Add(from.prompt->begin() + from.begin, from.prompt->begin() + from.end);
}

void Fill(const StartCommand& from, v1::CoordinatorMessage* to) {
  v1::StartJob* start = to->mutable_start();
  start->set_job_id(from.spec.id);
  start->set_prompt_tokens(static_cast<uint64_t>(from.spec.prompt_tokens));
  start->set_max_tokens(from.spec.max_tokens);
  ToProto(from.spec.sampling, start->mutable_sampling());
  for (const std::string& stop : from.spec.stops) start->add_stop(stop);
  start->set_want_logits(from.spec.want_logits);
  start->set_ring_size(from.ring_size);
  start->mutable_forced_tokens()->Add(from.spec.forced_tokens.begin(), from.spec.forced_tokens.end());
  start->set_reference(from.spec.reference);
  start->set_request_number(from.spec.request_number);
}

void Fill(const OpenAttentionCommand& from, v1::CoordinatorMessage* to) {
  v1::OpenAttention* open = to->mutable_open_attention();
  open->set_job_id(from.job_id);
  open->set_token(from.work->token);
  *open->mutable_spec() = ToProto(from.work->spec);
  open->set_ring_size(from.ring_size);
}

void Fill(const RunAttentionCommand& from, v1::CoordinatorMessage* to) {
  to->mutable_run_attention()->set_job_id(from.job_id);
}

void Fill(const CancelCommand& from, v1::CoordinatorMessage* to) {
  to->mutable_cancel()->set_job_id(from.job_id);
  to->mutable_cancel()->set_reason(from.reason);
}

void Fill(const LeaveCommand& from, v1::CoordinatorMessage* to) {
  to->mutable_leave()->set_reason(from.reason);
  to->mutable_leave()->set_drain(from.drain);
}

}  // namespace

RankStream::RankStream(grpc::ServerContext* context, Stream* stream, uint64_t heartbeat_interval_us)
    : heartbeat_interval_us_(heartbeat_interval_us), context_(context) {
  writer_ = std::thread([this, stream] {
    pthread_setname_np(pthread_self(), "rondo-rank-out");
    WriterLoop(stream);
  });
}

RankStream::~RankStream() { Close(); }

void RankStream::Close() {
  {
    const std::lock_guard lock(mutex_);
    if (context_ == nullptr) return;
    // A write that waits for a rank which does not read ends only with the call.
    if (!outbox_.empty()) context_->TryCancel();
    context_ = nullptr;
    closed_ = true;
  }
  wake_.notify_one();
  writer_.join();
}

void RankStream::WriterLoop(Stream* stream) {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return closed_ || !outbox_.empty(); });
    if (closed_) return;
    const v1::CoordinatorMessage& message = outbox_.front();  // a deque keeps it in place while others are added
    lock.unlock();
    const bool sent = stream->Write(message);
    lock.lock();
    outbox_.pop_front();
    if (!sent) outbox_.clear();  // the reader learns of it too and ends the call
  }
}

void RankStream::Put(v1::CoordinatorMessage message) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    outbox_.push_back(std::move(message));
  }
  wake_.notify_one();
}

void RankStream::Welcome(uint64_t epoch) {
  v1::CoordinatorMessage message;
  message.set_epoch(epoch);
  message.mutable_welcome()->set_heartbeat_interval_us(heartbeat_interval_us_);
  Put(std::move(message));
}

void RankStream::Send(const GroupCommand& command) {
  v1::CoordinatorMessage message;
  message.set_epoch(command.epoch);
  message.set_number(command.number);
  std::visit([&](const auto& body) { Fill(body, &message); }, command.body);
  Put(std::move(message));
}

void RankStream::Refuse(const absl::Status& why) {
  v1::CoordinatorMessage message;
  message.mutable_refused()->set_code(static_cast<int32_t>(why.code()));
  message.mutable_refused()->set_reason(std::string(why.message()));
  Put(std::move(message));
}

void RankStream::Leave(uint64_t epoch, const LeaveCommand& leave) {
  v1::CoordinatorMessage message;
  message.set_epoch(epoch);
  Fill(leave, &message);
  Put(std::move(message));
}

void RankStream::Kill() {
  const std::lock_guard lock(mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

}  // namespace rondo::coordinator
