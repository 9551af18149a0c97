// Decode for one element type; decode_bf16.cu and decode_fp16.cu compile it.
#pragma once

#include "kernels/cuda/attention/decode_mma.cuh"
#include "kernels/cuda/attention/fold_leaves.cuh"
#include "kernels/cuda/attention/launch.cuh"

namespace rondo::cuda {

template <class Element, int D, int kStages>
std::string LaunchDecode(const DecodeArgs& args, int64_t items, void* stream) {
  using Config = DecodeConfig<Element, D, kStages>;
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
      return LaunchDecode<Element, 64, 3>(args, items, stream);
    case 80:
      return LaunchDecode<Element, 80, 3>(args, items, stream);
    case 96:
      return LaunchDecode<Element, 96, 3>(args, items, stream);
    case 128:
      // Capabilities 8.6, 8.9 and 12 have 99 KiB a block. The bits do not know of stages.
      return DecodeBlock<DecodeConfig<Element, 128, 3>>::kSharedBytes <= MostSharedBytes()
                 ? LaunchDecode<Element, 128, 3>(args, items, stream)
                 : LaunchDecode<Element, 128, 2>(args, items, stream);
    default:
      return LaunchDecode<Element, 256, 2>(args, items, stream);
  }
}

// In decode_bf16.cu and decode_fp16.cu.
std::string DecodeBf16(int head_dim, const DecodeArgs& args, int64_t items, void* stream);
std::string DecodeFp16(int head_dim, const DecodeArgs& args, int64_t items, void* stream);

}  // namespace rondo::cuda
