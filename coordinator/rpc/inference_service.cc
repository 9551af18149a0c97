#include "coordinator/rpc/inference_service.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/journal/result_proto.h"
#include "coordinator/rpc/generate_call.h"
#include "coordinator/rpc/job_deadline.h"
#include "coordinator/rpc/prepare_job.h"
#include "coordinator/rpc/status_bridge.h"

namespace rondo::coordinator {
namespace {

void Fill(const Engine::JobView& view, bool with_text, v1::Job* to) {
  const Job& job = view.job;
  to->set_id(job.spec.id);
  to->set_state(Name(job.state));
  to->set_prompt_tokens(static_cast<uint64_t>(job.spec.prompt_tokens));
  to->set_max_tokens(job.spec.max_tokens);
  to->set_completion_tokens(job.tokens.size());
  to->set_prefill_fraction(job.prefill_fraction);
  to->set_submitted_unix_us(job.spec.submitted);
  to->set_restarts(job.restarts);
  to->set_error(std::string(job.error.message()));
  to->set_error_code(static_cast<int32_t>(job.error.code()));
  to->set_queue_position(view.queue_position);
  to->set_kind(job.spec.attention == nullptr ? "generate" : "attention");
  if (job.spec.attention != nullptr && job.state == JobState::kRunning) to->set_stage(Name(job.stage));
  if (!with_text) return;
  to->mutable_tokens()->Add(job.tokens.begin(), job.tokens.end());
  if (job.state == JobState::kFinished || job.state == JobState::kCancelled) {
    ToProto(job.spec.id, job.result, to->mutable_result());
  }
  if (view.model == nullptr) return;
  to->set_text_known(true);
  StreamDetokenizer text(*view.model->tokenizer, job.spec.stops);
  for (const int32_t token : job.tokens) to->mutable_text()->append(text.Push(token));
  if (job.state != JobState::kRunning && job.state != JobState::kQueued) to->mutable_text()->append(text.Flush());
}

}  // namespace

grpc::Status InferenceService::Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadChunk>* reader,
                                      v1::UploadReply* reply) {
  UploadStore::Arriving upload(uploads_);
  v1::UploadChunk chunk;
  while (reader->Read(&chunk)) {
    if (absl::Status status = upload.Append(chunk.data(), engine_.Now()); !status.ok()) return ToGrpc(status);
  }
  reply->set_size_bytes(upload.size());
  reply->set_upload_id(upload.Finish(engine_.Now()));
  return grpc::Status::OK;
}

grpc::Status InferenceService::Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                                        grpc::ServerWriter<v1::GenerateEvent>* writer) {
  const TimeUs submitted = engine_.Now();
  const uint64_t arrival = engine_.DrawArrival();
  const TimeUs deadline = JobDeadline(*context, submitted);
  if (absl::Status status = CheckRequest(*request); !status.ok()) return ToGrpc(status);
  absl::StatusOr<CurrentModel> model = engine_.WaitForModel(deadline, [&] { return context->IsCancelled(); });
  if (!model.ok()) return ToGrpc(model.status());
  absl::StatusOr<JobSpec> spec = PrepareJob(*request, *model->info, uploads_, engine_.Now());
  if (!spec.ok()) return ToGrpc(spec.status());
  spec->id = RandomId().substr(0, 12);
  spec->arrival = arrival;
  spec->bits_key = model->bits_key;
  spec->submitted = submitted;
  spec->deadline = deadline;
  const std::shared_ptr<JobStream> stream = engine_.Submit(*spec);
  return GenerateCall(engine_, model->info, *spec, *context, *writer).Run(*stream);
}

grpc::Status InferenceService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request, v1::Job* reply) {
  const std::optional<Engine::JobView> view = engine_.FindJob(request->id());
  if (!view) return grpc::Status(grpc::StatusCode::NOT_FOUND, absl::StrCat("id: no job \"", request->id(), "\""));
  Fill(*view, true, reply);
  return grpc::Status::OK;
}

grpc::Status InferenceService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*, v1::ListJobsReply* reply) {
  for (const Engine::JobView& view : engine_.ActiveJobs()) Fill(view, false, reply->add_jobs());
  return grpc::Status::OK;
}

grpc::Status InferenceService::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                         v1::CancelJobReply* reply) {
  if (!engine_.FindJob(request->id())) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, absl::StrCat("id: no job \"", request->id(), "\""));
  }
  reply->set_was_active(engine_.Cancel(request->id(), "cancelled by a client"));
  return grpc::Status::OK;
}

namespace {

// Ready groups first, then those that form, then the last few that were lost, each kind newest first.
std::vector<const Membership::Group*> GroupsToShow(const Engine::ClusterView& view) {
  constexpr int kLostGroupsShown = 3;
  const auto order = [](const Membership::Group& group) {
    return group.state == Membership::State::kReady ? 0 : group.state == Membership::State::kForming ? 1 : 2;
  };
  std::vector<const Membership::Group*> groups;
  for (const Membership::Group& group : view.groups) {
    if (!group.members.empty()) groups.push_back(&group);
  }
  std::stable_sort(groups.begin(), groups.end(), [&](const auto* a, const auto* b) {
    return order(*a) != order(*b) ? order(*a) < order(*b) : a->epoch > b->epoch;
  });
  int lost = 0;
  std::erase_if(groups, [&](const auto* group) { return order(*group) == 2 && ++lost > kLostGroupsShown; });
  return groups;
}

}  // namespace

grpc::Status InferenceService::GetCluster(grpc::ServerContext*, const v1::GetClusterRequest*, v1::Cluster* reply) {
  const Engine::ClusterView view = engine_.Cluster();
  reply->set_version(version_);
  reply->set_queued_jobs(view.queued);
  reply->set_running_jobs(view.running);
  reply->set_queue_limit(view.queue_limit);
  reply->set_draining(view.draining);
  for (const Membership::Group* shown : GroupsToShow(view)) {
    const Membership::Group& group = *shown;
    v1::GroupStatus* to = reply->add_groups();
    const RankHello& first = group.members.begin()->second.hello;
    to->set_epoch(group.epoch);
    to->set_state(group.state == Membership::State::kForming ? "forming"
                  : group.state == Membership::State::kReady ? "ready"
                                                             : "lost");
    to->set_model_sha256(first.fingerprint.model_sha256);
    if (const auto it = view.models.find(first.fingerprint.model_sha256); it != view.models.end()) {
      to->set_model(it->second->name);
      to->set_context(static_cast<uint64_t>(it->second->context));
    }
    to->set_world_size(first.world_size);
    to->set_compute(first.fingerprint.compute);
    to->set_kv_type(first.fingerprint.kv_type);
    to->set_transport(first.transport);
    for (const auto& [rank, member] : group.members) {
      v1::RankStatus* r = to->add_ranks();
      r->set_rank(rank);
      r->set_host(member.hello.host);
      r->set_pid(member.hello.pid);
      r->set_kernels(member.hello.kernels);
      r->set_threads(member.hello.threads);
      r->set_cpus(member.hello.cpus);
      r->set_kv_memory_bytes(member.hello.kv_memory_bytes);
      r->set_kv_used_bytes(member.vitals.kv_used_bytes);
      r->set_resident_bytes(member.vitals.resident_bytes);
    }
  }
  return grpc::Status::OK;
}

}  // namespace rondo::coordinator
