#include <cuda_runtime.h>

#include "bench/gpu/attention_under_test.h"
#include "kernels/cuda/attention/attend_mma.cuh"

namespace rondo::gpu_check {
namespace {

using cuda::AttentionArgs;

template <int D>
using Config = cuda::AttendConfig<gpu::Bf16, D, D == 256 ? 1 : 2>;

int Multiprocessors() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) return 0;
  return count;
}

template <class C>
int Ctas() {
  return Multiprocessors() * C::kCtasPerMultiprocessor;
}

template <class C>
int64_t ScratchOf(const AttentionArgs& args) {
  const int64_t blocks = (args.keys.tokens + cuda::kBlockTokens - 1) / cuda::kBlockTokens;
  return cuda::ScratchFloats<C>(Ctas<C>(), blocks);
}

template <class C>
std::string LaunchOf(const AttentionArgs& args) {
  constexpr int kShared = cuda::AttendTile<C>::kSharedBytes;
  cudaError_t status = cudaFuncSetAttribute(cuda::AttendMma<C>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  if (status != cudaSuccess) return std::string("shared memory: ") + cudaGetErrorString(status);
  cuda::AttendMma<C><<<Ctas<C>(), C::kThreads, kShared>>>(args);
  status = cudaGetLastError();
  return status == cudaSuccess ? "" : std::string("launch: ") + cudaGetErrorString(status);
}

int64_t Sm80Scratch(const AttentionArgs& args, int head_dim) {
  switch (head_dim) {
    case 64:
      return ScratchOf<Config<64>>(args);
    case 128:
      return ScratchOf<Config<128>>(args);
    case 256:
      return ScratchOf<Config<256>>(args);
    default:
      return 0;
  }
}

std::string Sm80Launch(const AttentionArgs& args, int head_dim) {
  switch (head_dim) {
    case 64:
      return LaunchOf<Config<64>>(args);
    case 128:
      return LaunchOf<Config<128>>(args);
    case 256:
      return LaunchOf<Config<256>>(args);
    default:
      return "head_dim " + std::to_string(head_dim) + " is not built";
  }
}

}  // namespace

int64_t BlockTokens() { return cuda::kBlockTokens; }

std::vector<AttentionKernel> PrefillKernels() { return {{"sm80 prefill", {64, 128, 256}, Sm80Scratch, Sm80Launch}}; }

}  // namespace rondo::gpu_check
