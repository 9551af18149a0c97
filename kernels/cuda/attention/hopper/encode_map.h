// Has the CUDA driver encode a tensor map; used by the launcher of the sm_90a kernel.
#pragma once

#include <cuda.h>

#include <string>

#include "kernels/cuda/attention/hopper/tensor_maps.h"

namespace rondo::cuda {

// An empty string, or what is wrong. `what` the map is of goes into it. The driver is asked for its function by name,
// so that nothing links libcuda.
std::string EncodeMap(const char* what, const MapSpec& spec, CUtensorMap* map);

}  // namespace rondo::cuda
