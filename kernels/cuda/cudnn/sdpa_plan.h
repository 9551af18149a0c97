// From a graph of operations to an engine that runs it; used by sdpa.cc.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/cudnn/descriptor.h"
#include "kernels/cuda/cudnn/sdpa_graph.h"

namespace rondo::cuda {

// Where a plan is to run: the device of a handle, or one that cuDNN's JSON describes.
struct SdpaTarget {
  cudnnHandle_t handle = nullptr;
  std::string device_properties;  // used where there is no handle
};

struct SdpaPlan {
  std::unique_ptr<Descriptor> plan;
  size_t workspace_bytes = 0;
};

// The first of cuDNN's proposals, best first, that it can build. UNIMPLEMENTED where it has none.
absl::StatusOr<SdpaPlan> BuildPlan(const CudnnApi& api, const SdpaTarget& target, const SdpaGraph& graph);

}  // namespace rondo::cuda
