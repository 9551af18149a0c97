#include <cuda_runtime.h>

#include "bench/gpu/decode_under_test.h"
#include "kernels/cuda/attention/decode_mma.cuh"
#include "kernels/cuda/attention/fold_leaves.cuh"
#include "kernels/cuda/attention/nodes.cuh"

namespace rondo::gpu_check {
namespace {

template <int D>
using Config = cuda::DecodeConfig<gpu::Bf16, D, D == 256 ? 2 : 3>;

std::string Words(const char* what, cudaError_t status) {
  return status == cudaSuccess ? "" : std::string(what) + ": " + cudaGetErrorString(status);
}

// Calls f(std::integral_constant<int, D>) for a head_dim that is built.
template <class F>
std::string ForHeadDim(int head_dim, F f) {
  switch (head_dim) {
    case 64:
      return f(std::integral_constant<int, 64>());
    case 128:
      return f(std::integral_constant<int, 128>());
    case 256:
      return f(std::integral_constant<int, 256>());
    default:
      return "head_dim " + std::to_string(head_dim) + " is not built";
  }
}

// CTAs that give every row and head a warp.
unsigned Ctas(int64_t rows, int64_t heads, int threads) {
  const int64_t warps = threads / 32;
  return static_cast<unsigned>((rows * heads + warps - 1) / warps);
}

}  // namespace

std::vector<int> DecodeHeadDims() { return {64, 128, 256}; }

std::string LaunchDecode(const cuda::DecodeArgs& args, int64_t items, int head_dim) {
  return ForHeadDim(head_dim, [&](auto d) -> std::string {
    constexpr int D = decltype(d)::value;
    using C = Config<D>;
    constexpr int kShared = cuda::DecodeBlock<C>::kSharedBytes;
    const cudaError_t status =
        cudaFuncSetAttribute(cuda::DecodeMma<C>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    if (status != cudaSuccess) return Words("shared memory of decode", status);
    if (items > 0) cuda::DecodeMma<C><<<static_cast<unsigned>(items), C::kThreads, kShared>>>(args);
    if (const cudaError_t launched = cudaGetLastError(); launched != cudaSuccess) return Words("decode", launched);
    if (args.rows > 0) {
      cuda::FoldLeaves<gpu::Bf16, D, C::kBlockTokensOfTree>
          <<<Ctas(args.rows, args.q_heads, cuda::kFoldThreads), cuda::kFoldThreads>>>(args);
    }
    return Words("fold of decode", cudaGetLastError());
  });
}

std::string LaunchMerge(const cuda::NodeArgs& left, const cuda::NodeArgs& right, int64_t rows, int heads,
                        int head_dim) {
  return ForHeadDim(head_dim, [&](auto d) {
    constexpr int D = decltype(d)::value;
    cuda::MergeNodes<D><<<Ctas(rows, heads, cuda::kNodeThreads), cuda::kNodeThreads>>>(left, right, rows, heads);
    return Words("merge", cudaGetLastError());
  });
}

std::string LaunchFinish(const cuda::NodeArgs& root, const cuda::OutputArgs& output, int64_t rows, int heads,
                         int head_dim) {
  return ForHeadDim(head_dim, [&](auto d) {
    constexpr int D = decltype(d)::value;
    cuda::FinishNodes<gpu::Bf16, D>
        <<<Ctas(rows, heads, cuda::kNodeThreads), cuda::kNodeThreads>>>(root, output, rows, heads);
    return Words("finish", cudaGetLastError());
  });
}

}  // namespace rondo::gpu_check
