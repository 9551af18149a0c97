#include "coordinator/rpc/generate_call.h"

#include <algorithm>

#include "coordinator/journal/result_proto.h"
#include "coordinator/rpc/status_bridge.h"

namespace rondo::coordinator {
namespace {

// Clients keep gRPC's default limit of 4 MiB for what they receive.
constexpr size_t kLogitsPieceBytes = 1u << 20;
// How soon a client that left is noticed when there is nothing to write.
constexpr std::chrono::milliseconds kLook{50};

}  // namespace

grpc::Status GenerateCall::Run(JobStream& stream) {
  for (;;) {
    const JobStream::Batch batch = stream.Wait(kLook);
    const bool closed = batch.closed.has_value();
    if (context_.IsCancelled() || !WriteBatch(batch)) {
      if (!closed) engine_.Cancel(id_, "the client left");
      return grpc::Status(grpc::StatusCode::CANCELLED, "the client left");
    }
    if (!closed) continue;
    if (batch.closed->state == JobState::kFailed) return ToGrpc(batch.closed->error);
    v1::GenerateEvent event;
    ToProto(id_, batch.closed->result, event.mutable_finished());
    writer_.Write(event);
    return grpc::Status::OK;
  }
}

bool GenerateCall::WriteBatch(const JobStream::Batch& batch) {
  if (batch.accepted) {
    v1::GenerateEvent event;
    event.mutable_accepted()->set_id(id_);
    event.mutable_accepted()->set_prompt_tokens(batch.accepted->prompt_tokens);
    event.mutable_accepted()->set_queue_position(batch.accepted->queue_position);
    if (!writer_.Write(event)) return false;
  }
  if (batch.restarting && !WriteProgress(*batch.restarting)) return false;
  if (batch.progress && !WriteProgress(*batch.progress)) return false;
  for (const LogitsNote& note : batch.logits) {
    if (!WriteLogits(note)) return false;
  }
  return WriteDelta(batch);
}

bool GenerateCall::WriteProgress(const ProgressNote& note) {
  v1::GenerateEvent event;
  v1::Progress* progress = event.mutable_progress();
  progress->set_phase(note.phase == Phase::kQueued    ? v1::Progress::QUEUED
                      : note.phase == Phase::kPrefill ? v1::Progress::PREFILL
                                                      : v1::Progress::RESTARTING);
  progress->set_fraction(note.fraction);
  progress->set_tokens_per_s(note.tokens_per_s);
  progress->set_eta_us(note.eta_us);
  progress->set_queue_position(note.queue_position);
  progress->set_message(note.message);
  return writer_.Write(event);
}

bool GenerateCall::WriteLogits(const LogitsNote& note) {
  for (size_t begin = 0; begin < note.values.size(); begin += kLogitsPieceBytes) {
    v1::GenerateEvent event;
    v1::Logits* logits = event.mutable_logits();
    logits->set_step(note.step);
    logits->set_offset(note.offset + static_cast<uint32_t>(begin / sizeof(float)));
    logits->set_values(note.values.substr(begin, kLogitsPieceBytes));
    if (!writer_.Write(event)) return false;
  }
  return true;
}

bool GenerateCall::WriteDelta(const JobStream::Batch& batch) {
  v1::GenerateEvent event;
  v1::Delta* delta = event.mutable_delta();
  for (const int32_t token : batch.tokens) {
    delta->add_tokens(token);
    delta->mutable_text()->append(text_.Push(token));
  }
  if (batch.closed && batch.closed->state != JobState::kFailed) delta->mutable_text()->append(text_.Flush());
  if (delta->tokens().empty() && delta->text().empty()) return true;
  return writer_.Write(event);
}

}  // namespace rondo::coordinator
