// Attention as a graph of cuDNN operations; used by sdpa.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/cudnn/descriptor.h"
#include "kernels/cuda/cudnn/sdpa.h"

namespace rondo::cuda {

// Names of the tensors that Run binds to memory.
enum SdpaTensor : int64_t { kQ = 1, kK, kV, kOut, kLse, kScale, kMasked, kFirstVirtual };

// All descriptors of a graph; the operations are in `operations`, in order of data flow.
struct SdpaGraph {
  std::vector<Descriptor> descriptors;
  std::vector<cudnnBackendDescriptor_t> operations;
};

// One operation; has no causal form. Fails through `build` where the headers at hand do not know it.
SdpaGraph OperationGraph(CudnnBuild& build, const CudnnSdpaShape& shape);

// matmul, scale, [index mask], max, subtract, exp, sum, log, divide, matmul: cuDNN recognises the pattern and runs one
// fused kernel.
SdpaGraph CompositeGraph(CudnnBuild& build, const CudnnSdpaShape& shape);

}  // namespace rondo::cuda
