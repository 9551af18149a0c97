// Starting a kernel: shared memory beyond 48 KiB must be asked for, and errors become text. Used by the launchers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace rondo::cuda {

inline std::string ErrorText(cudaError_t error) {
  return error == cudaSuccess ? std::string() : std::string("CUDA: ") + cudaGetErrorString(error);
}

// What a block of the current device may have.
inline int MostSharedBytes() {
  int device = 0, bytes = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return bytes;
}

template <class... Parameters, class... Arguments>
std::string LaunchKernel(void (*kernel)(Parameters...), int64_t ctas, int threads, int shared_bytes, void* stream,
                         const Arguments&... arguments) {
  if (ctas == 0) return {};
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error != cudaSuccess) {
    return ErrorText(error) + " (asking for " + std::to_string(shared_bytes) + " bytes of shared memory)";
  }
  kernel<<<static_cast<unsigned>(ctas), threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(arguments...);
  return ErrorText(cudaGetLastError());
}

}  // namespace rondo::cuda
