// The sm_90a prefill kernel on the emulator.
#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/attention/hopper/attend_wgmma.cuh"
#include "tests/kernels/cuda/emulated.h"

namespace rondo::cuda {
namespace {

gpu::TensorMap Encoded(const MapSpec& spec) {
  gpu::TensorMap map;
  map.base = reinterpret_cast<const uint16_t*>(spec.base);
  map.dimensions = spec.dimensions;
  map.size = spec.size;
  for (size_t i = 1; i < spec.stride_bytes.size(); ++i) map.stride[i] = spec.stride_bytes[i] / 2;
  map.box = spec.box;
  return map;
}

template <class C>
simt::Report Launch(const HowToRun& run, simt::Options options, int64_t blocks, AttentionArgs args) {
  const int64_t items = (args.query.rows + C::kRows - 1) / C::kRows * args.q_heads;
  // Aligned as device memory is.
  std::vector<gpu::Float4> scratch(static_cast<size_t>(HopperScratchFloats<C>(run.ctas, blocks, items) / 4 + 1),
                                   {kNaN, kNaN, kNaN, kNaN});
  args.scratch = &scratch.front().x;
  options.memory.push_back({scratch.data(), scratch.size() * sizeof(gpu::Float4), true, "scratch"});
  const HopperMaps maps{Encoded(QueryMap(args, C::kHeadDim)), Encoded(KeyMap(args, C::kHeadDim))};
  return simt::Launch(run.ctas, C::kThreads, Stages<C>::kSharedBytes, options, [&] { AttendWgmma<C>(args, maps); });
}

}  // namespace

std::vector<TestedKernel> TestedKernels() {
  return {{ElementType::kBf16, 64}, {ElementType::kBf16, 128}, {ElementType::kBf16, 256}, {ElementType::kFp16, 64}};
}

// The instantiations under test; each costs compile time.
simt::Report LaunchAttend(const Problem& p, const HowToRun& run, const simt::Options& options, int64_t blocks,
                          const AttentionArgs& args) {
  if (p.type == ElementType::kBf16) {
    switch (p.head_dim) {
      case 64:
        return Launch<HopperConfig<gpu::Bf16, 64, kTestBlock>>(run, options, blocks, args);
#if !defined(RONDO_FEW_INSTANTIATIONS)
      case 128:
        return Launch<HopperConfig<gpu::Bf16, 128, kTestBlock>>(run, options, blocks, args);
      case 256:
        return Launch<HopperConfig<gpu::Bf16, 256, kTestBlock>>(run, options, blocks, args);
#endif
    }
  }
#if !defined(RONDO_FEW_INSTANTIATIONS)
  if (p.type == ElementType::kFp16 && p.head_dim == 64) {
    return Launch<HopperConfig<gpu::Fp16, 64, kTestBlock>>(run, options, blocks, args);
  }
#endif
  RONDO_CHECK(false);
  return {};
}

}  // namespace rondo::cuda
