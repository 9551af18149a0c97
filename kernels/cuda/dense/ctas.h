// How many CTAs a launcher starts. CUDA sources only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace rondo::cuda {

// As many as there are items, but no more than the current device holds at once: kernels stride over the rest.
inline int64_t CtasFor(int64_t items, int per_multiprocessor) {
  int device = 0, multiprocessors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  const int64_t most = int64_t{multiprocessors} * per_multiprocessor;
  return items < most ? items : most;
}

}  // namespace rondo::cuda
