// The plain functions of attention.h: checks, and the choice of the compiled kernel; and the kernels on nodes.
#include <algorithm>

#include "kernels/cuda/attention/attend_config.h"
#include "kernels/cuda/attention/attend_launch.cuh"
#include "kernels/cuda/attention/attend_sizes.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/decode_launch.cuh"
#include "kernels/cuda/attention/hopper/attend_hopper.h"
#include "kernels/cuda/attention/hopper/hopper_config.h"
#include "kernels/cuda/attention/nodes.cuh"

namespace rondo::cuda {
namespace {

template <class Config>
int64_t Items(int64_t rows, int q_heads) {
  return (rows + Config::kRows - 1) / Config::kRows * q_heads * Config::kValueParts;
}

template <class Config>
int Ctas(int64_t items, int multiprocessors) {
  return static_cast<int>(std::min<int64_t>(items, int64_t{multiprocessors} * Config::kCtasPerMultiprocessor));
}

template <int D>
AttendPlan PlanFor(AttendKernel kernel, int64_t rows, int q_heads, int64_t blocks, int multiprocessors) {
  if constexpr (HopperHasHeadDim(D)) {
    if (kernel == AttendKernel::kSm90a) {
      using Config = HopperConfig<gpu::Bf16, D>;
      const int64_t items = Items<Config>(rows, q_heads);
      const int ctas = Ctas<Config>(items, multiprocessors);
      return {kernel, ctas, HopperScratchFloats<Config>(ctas, blocks, items) * 4};
    }
  }
  using Config = AttendConfig<gpu::Bf16, D, WarpTiles(D)>;
  const int ctas = Ctas<Config>(Items<Config>(rows, q_heads), multiprocessors);
  return {AttendKernel::kSm80, ctas, ScratchFloats<Config>(ctas, blocks) * 4};
}

// Calls f with the head size as a constant.
template <class F>
auto WithHeadDim(int head_dim, F f) {
  switch (head_dim) {
    case 64:
      return f.template operator()<64>();
    case 80:
      return f.template operator()<80>();
    case 96:
      return f.template operator()<96>();
    case 128:
      return f.template operator()<128>();
    default:
      return f.template operator()<256>();
  }
}

int64_t NodeCtas(int64_t rows, int heads) { return (rows * heads * 32 + kNodeThreads - 1) / kNodeThreads; }

}  // namespace

AttendPlan PlanAttend(AttendKernel kernel, int head_dim, int64_t rows, int q_heads, int64_t key_tokens,
                      int multiprocessors) {
  const int64_t blocks = (key_tokens + kBlockTokens - 1) / kBlockTokens;
  return WithHeadDim(head_dim, [&]<int D>() { return PlanFor<D>(kernel, rows, q_heads, blocks, multiprocessors); });
}

std::string Attend(ElementType type, int head_dim, const AttentionArgs& args, const AttendPlan& plan, void* stream) {
  if (std::string wrong = CheckAttention(head_dim, args); !wrong.empty()) return wrong;
  if (plan.kernel == AttendKernel::kSm90a) {
    if (!HopperHasHeadDim(head_dim)) return "head_dim is " + std::to_string(head_dim) + ", must be 64, 128 or 256";
#if RONDO_HOPPER_KERNELS
    return type == ElementType::kBf16 ? AttendHopperBf16(head_dim, args, plan.ctas, stream)
                                      : AttendHopperFp16(head_dim, args, plan.ctas, stream);
#else
    return "this program was built without the kernel for sm_90a";
#endif
  }
  return type == ElementType::kBf16 ? AttendBf16(head_dim, args, plan.ctas, stream)
                                    : AttendFp16(head_dim, args, plan.ctas, stream);
}

std::string Decode(ElementType type, int head_dim, const DecodeArgs& args, int64_t items, void* stream) {
  if (std::string wrong = CheckDecode(head_dim, args, items); !wrong.empty()) return wrong;
  return type == ElementType::kBf16 ? DecodeBf16(head_dim, args, items, stream)
                                    : DecodeFp16(head_dim, args, items, stream);
}

std::string CheckDevice(int capability, int head_dim) {
  const int needed = head_dim == 256   ? DecodeBlock<DecodeConfig<gpu::Bf16, 256, 2>>::kSharedBytes
                     : head_dim == 128 ? DecodeBlock<DecodeConfig<gpu::Bf16, 128, 2>>::kSharedBytes
                                       : DecodeBlock<DecodeConfig<gpu::Bf16, 96, 3>>::kSharedBytes;
  if (needed > MostSharedBytes()) {
    return "head size " + std::to_string(head_dim) + " needs " + std::to_string(needed) +
           " bytes of shared memory a block, and the GPU has " + std::to_string(MostSharedBytes());
  }
#if RONDO_HOPPER_KERNELS
  if (ChooseAttendKernel(capability, head_dim) == AttendKernel::kSm90a) return CheckHopperMaps(head_dim);
#endif
  return {};
}

std::string MergeNodes(int head_dim, const NodeArgs& left, const NodeArgs& right, int64_t rows, int heads,
                       void* stream) {
  return WithHeadDim(head_dim, [&]<int D>() {
    return LaunchKernel(MergeNodesKernel<D>, NodeCtas(rows, heads), kNodeThreads, 0, stream, left, right, rows, heads);
  });
}

std::string FinishNodes(ElementType type, int head_dim, const NodeArgs& root, const OutputArgs& output, int64_t rows,
                        int heads, void* stream) {
  return WithHeadDim(head_dim, [&]<int D>() {
    const auto kernel = type == ElementType::kBf16 ? FinishNodesKernel<gpu::Bf16, D> : FinishNodesKernel<gpu::Fp16, D>;
    return LaunchKernel(kernel, NodeCtas(rows, heads), kNodeThreads, 0, stream, root, output, rows, heads);
  });
}

}  // namespace rondo::cuda
