#include "kernels/cuda/attention/hopper/hopper_launch.cuh"

namespace rondo::cuda {

std::string AttendHopperFp16(int head_dim, const AttentionArgs& args, int ctas, void* stream) {
  return LaunchHopper<gpu::Fp16>(head_dim, args, ctas, stream);
}

}  // namespace rondo::cuda
