// What a rank of the GPU check computes with and sends through, made in the rank's own process; used by the law over
// ranks.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "rondo/attention_kernels.h"
#include "rondo/transport.h"

namespace rondo::gpu_check {

class RankPlace {
 public:
  virtual ~RankPlace() = default;
  virtual const AttentionKernels& kernels() = 0;
  virtual Transport& transport() = 0;
  virtual absl::Status Close() = 0;  // all ranks call it, when they are through
};

// On GPU `device`. All ranks call it; `control` outlives what is made.
using MakePlace = std::function<absl::StatusOr<std::unique_ptr<RankPlace>>(Transport& control, int device)>;

}  // namespace rondo::gpu_check
