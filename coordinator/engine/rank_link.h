// One rank's stream as the engine sees it; implemented by the group service, and by tests.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/core/action.h"

namespace rondo::coordinator {

// All calls come from the engine's driver thread and never block.
class RankLink {
 public:
  virtual ~RankLink() = default;
  virtual void Welcome(uint64_t epoch) = 0;
  virtual void Send(const GroupCommand& command) = 0;
  virtual void Refuse(const absl::Status& why) = 0;                   // the last message
  virtual void Leave(uint64_t epoch, const LeaveCommand& leave) = 0;  // the last message
  // Ends the stream whether or not the rank has read what was sent: a frozen one never will.
  virtual void Kill() = 0;
};

}  // namespace rondo::coordinator
