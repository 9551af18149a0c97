// The service that ranks dial in to. It turns messages into the engine's events; the engine decides.
#pragma once

#include "coordinator/engine/engine.h"
#include "rondo/v1/group.grpc.pb.h"

namespace rondo::coordinator {

// Each Join keeps a gRPC thread (reading) and one of its own (writing) for the life of the rank.
class GroupService final : public v1::Group::Service {
 public:
  GroupService(Engine& engine, uint64_t heartbeat_interval_us)
      : engine_(engine), heartbeat_interval_us_(heartbeat_interval_us) {}

  grpc::Status Join(grpc::ServerContext* context,
                    grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::RankMessage>* stream) override;

 private:
  Engine& engine_;
  const uint64_t heartbeat_interval_us_;
};

}  // namespace rondo::coordinator
