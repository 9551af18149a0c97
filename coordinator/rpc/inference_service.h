// The service that clients call. Text turns into ids here and ids into text; inside there are only ids.
#pragma once

#include "coordinator/engine/engine.h"
#include "coordinator/rpc/upload_store.h"
#include "rondo/v1/inference.grpc.pb.h"

namespace rondo::coordinator {

// Handlers run on gRPC's threads; a Generate call keeps one for its whole life.
class InferenceService final : public v1::Inference::Service {
 public:
  InferenceService(Engine& engine, UploadLimits limits, std::string version)
      : engine_(engine), uploads_(limits), version_(std::move(version)) {}

  grpc::Status Upload(grpc::ServerContext* context, grpc::ServerReader<v1::UploadChunk>* reader,
                      v1::UploadReply* reply) override;
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateEvent>* writer) override;
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request, v1::Job* reply) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsReply* reply) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::CancelJobReply* reply) override;
  grpc::Status GetCluster(grpc::ServerContext* context, const v1::GetClusterRequest* request,
                          v1::Cluster* reply) override;

 private:
  Engine& engine_;
  UploadStore uploads_;
  const std::string version_;
};

}  // namespace rondo::coordinator
