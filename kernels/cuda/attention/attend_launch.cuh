// Attend for one element type; attend_bf16.cu and attend_fp16.cu compile it.
#pragma once

#include "kernels/cuda/attention/attend_mma.cuh"
#include "kernels/cuda/attention/attend_sizes.h"
#include "kernels/cuda/attention/launch.cuh"

namespace rondo::cuda {

template <class Element, int D>
std::string LaunchAttend(const AttentionArgs& args, int ctas, void* stream) {
  using Config = AttendConfig<Element, D, WarpTiles(D)>;
  return LaunchKernel(AttendMma<Config>, ctas, Config::kThreads, AttendTile<Config>::kSharedBytes, stream, args);
}

template <class Element>
std::string LaunchAttend(int head_dim, const AttentionArgs& args, int ctas, void* stream) {
  switch (head_dim) {
    case 64:
      return LaunchAttend<Element, 64>(args, ctas, stream);
    case 80:
      return LaunchAttend<Element, 80>(args, ctas, stream);
    case 96:
      return LaunchAttend<Element, 96>(args, ctas, stream);
    case 128:
      return LaunchAttend<Element, 128>(args, ctas, stream);
    default:
      return LaunchAttend<Element, 256>(args, ctas, stream);
  }
}

// In attend_bf16.cu and attend_fp16.cu.
std::string AttendBf16(int head_dim, const AttentionArgs& args, int ctas, void* stream);
std::string AttendFp16(int head_dim, const AttentionArgs& args, int ctas, void* stream);

}  // namespace rondo::cuda
