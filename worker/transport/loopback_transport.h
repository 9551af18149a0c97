// Ranks as threads of one process: the transport of single-process runs, of the verify tool and of most tests.
#pragma once

#include <memory>

#include "rondo/transport.h"

namespace rondo {

// Messages are copied into a mailbox when posted, so a send never waits. Abort reaches all ranks. A rank that failed or
// whose transport is destroyed fails its peers' later receives from it with UNAVAILABLE; what it sent before still
// arrives.
class LoopbackHub {
 public:
  explicit LoopbackHub(int world);
  ~LoopbackHub();  // connections may outlive the hub

  // Once for each rank of [0, world), any thread.
  std::unique_ptr<Transport> Connect(int rank);

  // What all connections share; defined in the .cc.
  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace rondo
