// Turns the coordinator's messages into commands: collects prompt slices until their StartJob comes. Used by
// GroupClient alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rondo/v1/group.pb.h"
#include "worker/session/command.h"

namespace rondo {

class CommandAssembler {
 public:
  // Every numbered message gives one command; prompt slices give a command without effect. INTERNAL for a message that
  // does not fit what came before.
  absl::StatusOr<Command> Take(const v1::CoordinatorMessage& message);

 private:
  absl::StatusOr<StartJob> Start(const v1::StartJob& from);

  std::map<std::string, std::vector<int32_t>> prompts_;
};

}  // namespace rondo
