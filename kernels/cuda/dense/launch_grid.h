// What the launchers share: how many CTAs, and the launch itself. CUDA sources only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/check.h"

namespace rondo::cuda {

// As many CTAs as there are items, but no more than the device holds at once: kernels stride over the rest.
inline int CtasFor(int64_t items, int per_multiprocessor) {
  int device = 0, multiprocessors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  const int64_t most = int64_t{multiprocessors} * per_multiprocessor;
  return static_cast<int>(items < most ? items : most);
}

// Nothing to do is a success.
template <class Args>
int Start(void (*kernel)(Args), const Args& args, int ctas, int threads, int shared_bytes, void* stream) {
  if (ctas == 0) return cudaSuccess;
  kernel<<<ctas, threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(args);
  return cudaGetLastError();
}

}  // namespace rondo::cuda
