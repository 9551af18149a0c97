#include "kernels/cuda/attention/hopper/hopper_launch.cuh"

namespace rondo::cuda {

std::string AttendHopperBf16(int head_dim, const AttentionArgs& args, int ctas, void* stream) {
  return LaunchHopper<gpu::Bf16>(head_dim, args, ctas, stream);
}

}  // namespace rondo::cuda
