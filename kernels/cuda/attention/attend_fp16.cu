#include "kernels/cuda/attention/attend_launch.cuh"

namespace rondo::cuda {

std::string AttendFp16(int head_dim, const AttentionArgs& args, int ctas, void* stream) {
  return LaunchAttend<gpu::Fp16>(head_dim, args, ctas, stream);
}

}  // namespace rondo::cuda
