// Decode for one element type; decode_bf16.cu and decode_fp16.cu compile it.
#pragma once

#include "kernels/cuda/attention/decode_mma.cuh"
#include "kernels/cuda/attention/fold_leaves.cuh"
#include "kernels/cuda/attention/launch.cuh"

namespace rondo::cuda {

template <class Element, int D>
std::string LaunchDecode(const DecodeArgs& args, int64_t items, void* stream) {
  using Config = DecodeConfig<Element, D, D <= 128 ? 3 : 2>;
  std::string wrong =
      LaunchKernel(DecodeMma<Config>, items, Config::kThreads, DecodeBlock<Config>::kSharedBytes, stream, args);
  if (!wrong.empty()) return wrong;
  const int64_t folds = (args.rows * args.q_heads * 32 + kFoldThreads - 1) / kFoldThreads;  // a warp each
  return LaunchKernel(FoldLeaves<Element, D, Config::kBlockTokensOfTree>, folds, kFoldThreads, 0, stream, args);
}

template <class Element>
std::string LaunchDecode(int head_dim, const DecodeArgs& args, int64_t items, void* stream) {
  switch (head_dim) {
    case 64:
      return LaunchDecode<Element, 64>(args, items, stream);
    case 80:
      return LaunchDecode<Element, 80>(args, items, stream);
    case 96:
      return LaunchDecode<Element, 96>(args, items, stream);
    case 128:
      return LaunchDecode<Element, 128>(args, items, stream);
    default:
      return LaunchDecode<Element, 256>(args, items, stream);
  }
}

// In decode_bf16.cu and decode_fp16.cu.
std::string DecodeBf16(int head_dim, const DecodeArgs& args, int64_t items, void* stream);
std::string DecodeFp16(int head_dim, const DecodeArgs& args, int64_t items, void* stream);

}  // namespace rondo::cuda
