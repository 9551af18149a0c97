#include "kernels/cuda/attention/decode_launch.cuh"

namespace rondo::cuda {

std::string DecodeFp16(int head_dim, const DecodeArgs& args, int64_t items, void* stream) {
  return LaunchDecode<gpu::Fp16>(head_dim, args, items, stream);
}

}  // namespace rondo::cuda
