#include "kernels/cuda/attention/attend_launch.cuh"

namespace rondo::cuda {

std::string AttendBf16(int head_dim, const AttentionArgs& args, int ctas, void* stream) {
  return LaunchAttend<gpu::Bf16>(head_dim, args, ctas, stream);
}

}  // namespace rondo::cuda
