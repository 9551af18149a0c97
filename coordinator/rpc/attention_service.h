// The service through which clients open, run and close attention jobs; the tensors go past it, straight to the ranks.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "coordinator/engine/engine.h"
#include "rondo/v1/attention.grpc.pb.h"

namespace rondo::coordinator {

struct AttentionTimes {
  int64_t upload_wait_us = 0;
  int64_t keep_us = 0;
};

// Handlers run on gRPC's threads, each for the length of its call.
class AttentionService final : public v1::AttentionService::Service {
 public:
  AttentionService(Engine& engine, AttentionTimes times) : engine_(engine), times_(times) {}

  grpc::Status Open(grpc::ServerContext* context, const v1::AttentionSpec* request,
                    v1::AttentionTicket* reply) override;
  grpc::Status Attend(grpc::ServerContext* context, const v1::AttendRequest* request,
                      grpc::ServerWriter<v1::AttendEvent>* writer) override;
  grpc::Status Close(grpc::ServerContext* context, const v1::CloseAttentionRequest* request,
                     v1::CloseAttentionReply* reply) override;

 private:
  grpc::Status Watch(grpc::ServerContext* context, const std::string& id, grpc::ServerWriter<v1::AttendEvent>* writer);
  // OK if the job waits for Attend; else why not. `finished` is set if it has run already.
  grpc::Status CheckOpen(const std::string& id, bool* finished, v1::AttendEvent* event) const;

  Engine& engine_;
  const AttentionTimes times_;
  std::mutex mutex_;
  std::set<std::string> watched_;  // jobs with an Attend call
};

}  // namespace rondo::coordinator
