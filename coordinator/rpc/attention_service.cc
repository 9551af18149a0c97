#include "coordinator/rpc/attention_service.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "coordinator/rpc/job_deadline.h"
#include "coordinator/rpc/status_bridge.h"
#include "coordinator/rpc/upload_store.h"
#include "proto/attention_spec.h"

namespace rondo::coordinator {
namespace {

// How soon a client that left is noticed when there is nothing to write.
constexpr std::chrono::milliseconds kLook{50};

grpc::Status ClientLeft() { return grpc::Status(grpc::StatusCode::CANCELLED, "the client left"); }

void Fill(const std::vector<PositionRun>& runs, google::protobuf::RepeatedPtrField<v1::RowRun>* to) {
  for (const PositionRun& run : runs) {
    v1::RowRun* added = to->Add();
    added->set_begin(run.begin);
    added->set_end(run.end);
  }
}

void Fill(const OpenedNote& opened, AttentionJobSpec spec, v1::AttentionTicket* ticket) {
  spec.shape.leaf_level = opened.leaf_level;
  ticket->set_epoch(opened.epoch);
  const int ranks = static_cast<int>(opened.memory_bytes.size());
  const RingShares shares = PlanShares(spec.Problem(), ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    v1::RankShare* share = ticket->add_ranks();
    share->set_rank(static_cast<uint32_t>(rank));
    share->set_data_address(opened.data_addresses[rank]);
    Fill(shares.q_rows[rank], share->mutable_q_rows());
    Fill(shares.kv_rows[rank], share->mutable_kv_rows());
    share->set_memory_bytes(opened.memory_bytes[rank]);
  }
}

void Fill(const std::string& id, const AttentionResult& from, v1::AttendFinished* to) {
  to->set_job_id(id);
  to->set_run_us(from.run_us);
  to->set_workers(from.workers);
  to->set_strategy(from.strategy);
  to->set_strategy_reason(from.strategy_reason);
  to->set_pass_kv_us(from.pass_kv_us);
  to->set_pass_q_us(from.pass_q_us);
  to->set_exchanged_bytes(from.exchanged_bytes);
  to->set_skipped_steps(from.skipped_steps);
  to->mutable_memory_bytes_per_worker()->Add(from.memory_bytes_per_worker.begin(), from.memory_bytes_per_worker.end());
  to->set_kernels(from.kernels);
}

grpc::Status Ended(const absl::Status& error) {
  if (!error.ok()) return ToGrpc(error);
  return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "the job is closed");
}

}  // namespace

grpc::Status AttentionService::Open(grpc::ServerContext* context, const v1::AttentionSpec* request,
                                    v1::AttentionTicket* reply) {
  absl::StatusOr<AttentionJobSpec> spec = rondo::FromProto(*request);
  if (!spec.ok()) return ToGrpc(spec.status());
  auto work = std::make_shared<AttentionWork>(AttentionWork{*std::move(spec), RandomId()});
  JobSpec job;
  job.id = RandomId().substr(0, 12);
  job.arrival = engine_.DrawArrival();
  job.submitted = engine_.Now();
  job.deadline = JobDeadline(*context, job.submitted);
  job.prompt_tokens = work->spec.kv_tokens;
  job.ring_size = work->spec.ring_size;
  job.attention = work;
  const std::shared_ptr<JobStream> stream = engine_.Submit(job);
  for (;;) {
    const JobStream::Batch batch = stream->Wait(kLook);
    if (batch.closed) return Ended(batch.closed->error);
    if (context->IsCancelled()) {
      engine_.Cancel(job.id, "the client left");
      return ClientLeft();
    }
    if (!batch.opened) continue;
    reply->set_job_id(job.id);
    reply->set_token(work->token);
    reply->set_upload_within_us(static_cast<uint64_t>(times_.upload_wait_us));
    reply->set_keep_us(static_cast<uint64_t>(times_.keep_us));
    Fill(*batch.opened, work->spec, reply);
    return grpc::Status::OK;
  }
}

grpc::Status AttentionService::CheckOpen(const std::string& id, bool* finished, v1::AttendEvent* event) const {
  const std::optional<Engine::JobView> view = engine_.FindJob(id);
  if (!view || view->job.spec.attention == nullptr) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, absl::StrCat("job_id: no attention job \"", id, "\""));
  }
  const Job& job = view->job;
  if (job.state != JobState::kRunning && job.state != JobState::kQueued) return Ended(job.error);
  if (job.state == JobState::kRunning && job.stage == AttentionStage::kKept) {
    *finished = true;
    Fill(id, job.attention, event->mutable_finished());
    return grpc::Status::OK;
  }
  if (job.state == JobState::kRunning && job.stage == AttentionStage::kUploading) return grpc::Status::OK;
  return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                      absl::StrCat("the job is ", job.state == JobState::kQueued ? "queued" : Name(job.stage),
                                   ", Attend comes when it is uploading"));
}

grpc::Status AttentionService::Attend(grpc::ServerContext* context, const v1::AttendRequest* request,
                                      grpc::ServerWriter<v1::AttendEvent>* writer) {
  const std::string& id = request->job_id();
  {
    const std::lock_guard lock(mutex_);
    if (!watched_.insert(id).second) {
      return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                          absl::StrCat("job ", id, " has an Attend call already"));
    }
  }
  absl::Cleanup unwatch = [&] {
    const std::lock_guard lock(mutex_);
    watched_.erase(id);
  };
  bool finished = false;
  v1::AttendEvent event;
  if (grpc::Status status = CheckOpen(id, &finished, &event); !status.ok()) return status;
  if (finished) {
    writer->Write(event);
    return grpc::Status::OK;
  }
  return Watch(context, id, writer);
}

grpc::Status AttentionService::Watch(grpc::ServerContext* context, const std::string& id,
                                     grpc::ServerWriter<v1::AttendEvent>* writer) {
  const std::shared_ptr<JobStream> stream = engine_.FindStream(id);
  if (stream == nullptr) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the job was lost");
  const TimeUs began = engine_.Now();
  engine_.Attend(id);
  for (;;) {
    const JobStream::Batch batch = stream->Wait(kLook);
    if (batch.closed) return Ended(batch.closed->error);
    v1::AttendEvent event;
    if (batch.ran) {
      if (!batch.ran->error.ok()) return ToGrpc(batch.ran->error);
      Fill(id, batch.ran->result, event.mutable_finished());
      writer->Write(event);
      return grpc::Status::OK;
    }
    bool there = !context->IsCancelled();
    if (there && batch.progress && batch.progress->phase == Phase::kPrefill) {
      event.mutable_progress()->set_fraction(batch.progress->fraction);
      event.mutable_progress()->set_elapsed_us(static_cast<uint64_t>(engine_.Now() - began));
      there = writer->Write(event);
    }
    if (!there) {
      engine_.Cancel(id, "the client left");
      return ClientLeft();
    }
  }
}

grpc::Status AttentionService::Close(grpc::ServerContext*, const v1::CloseAttentionRequest* request,
                                     v1::CloseAttentionReply* reply) {
  const std::optional<Engine::JobView> view = engine_.FindJob(request->job_id());
  if (!view || view->job.spec.attention == nullptr) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND,
                        absl::StrCat("job_id: no attention job \"", request->job_id(), "\""));
  }
  reply->set_was_open(view->job.state == JobState::kRunning || view->job.state == JobState::kQueued);
  engine_.Close(request->job_id());
  return grpc::Status::OK;
}

}  // namespace rondo::coordinator
