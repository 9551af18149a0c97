// One Generate call after its job was submitted: notes from the engine become events for the client.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <string>

#include "coordinator/core/job.h"
#include "coordinator/engine/engine.h"
#include "coordinator/engine/job_stream.h"
#include "coordinator/engine/model_info.h"
#include "model/tokenizer/stream_detokenizer.h"
#include "rondo/v1/inference.pb.h"

namespace rondo::coordinator {

class GenerateCall {
 public:
  GenerateCall(Engine& engine, std::shared_ptr<const ModelInfo> model, const JobSpec& spec,
               grpc::ServerContext& context, grpc::ServerWriter<v1::GenerateEvent>& writer)
      : engine_(engine),
        model_(std::move(model)),
        id_(spec.id),
        text_(*model_->tokenizer, spec.stops),
        context_(context),
        writer_(writer) {}

  // Returns when the job is closed or the client has left (then the job is cancelled).
  grpc::Status Run(JobStream& stream);

 private:
  bool WriteBatch(const JobStream::Batch& batch);  // false: the client is gone
  bool WriteProgress(const ProgressNote& note);
  bool WriteLogits(const LogitsNote& note);
  bool WriteDelta(const JobStream::Batch& batch);

  Engine& engine_;
  const std::shared_ptr<const ModelInfo> model_;
  const std::string id_;
  StreamDetokenizer text_;
  grpc::ServerContext& context_;
  grpc::ServerWriter<v1::GenerateEvent>& writer_;
};

}  // namespace rondo::coordinator
