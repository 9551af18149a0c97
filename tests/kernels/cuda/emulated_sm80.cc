// The sm_80 prefill kernel on the emulator.
#include "base/check.h"
#include "kernels/cuda/attention/attend_mma.cuh"
#include "tests/kernels/cuda/emulated.h"

namespace rondo::cuda {
namespace {

template <class C>
simt::Report Launch(const HowToRun& run, simt::Options options, int64_t blocks, AttentionArgs args) {
  // Aligned as device memory is.
  std::vector<gpu::Float4> scratch(static_cast<size_t>(ScratchFloats<C>(run.ctas, blocks) / 4),
                                   {kNaN, kNaN, kNaN, kNaN});
  args.scratch = &scratch.front().x;
  options.memory.push_back({scratch.data(), scratch.size() * sizeof(gpu::Float4), true, "scratch"});
  return simt::Launch(run.ctas, C::kThreads, AttendTile<C>::kSharedBytes, options, [&] { AttendMma<C>(args); });
}

}  // namespace

std::vector<TestedKernel> TestedKernels() {
  return {{ElementType::kBf16, 64},  {ElementType::kBf16, 80}, {ElementType::kBf16, 96}, {ElementType::kBf16, 128},
          {ElementType::kBf16, 256}, {ElementType::kFp16, 64}, {ElementType::kFp16, 128}};
}

// The instantiations under test; each costs compile time.
simt::Report LaunchAttend(const Problem& p, const HowToRun& run, const simt::Options& options, int64_t blocks,
                          const AttentionArgs& args) {
  if (p.type == ElementType::kBf16) {
#if !defined(RONDO_FEW_INSTANTIATIONS)
    if (run.warp_tiles == 2 && p.head_dim == 64) {
      return Launch<AttendConfig<gpu::Bf16, 64, 2, kTestBlock>>(run, options, blocks, args);
    }
#endif
    switch (p.head_dim) {
      case 64:
        return Launch<AttendConfig<gpu::Bf16, 64, 1, kTestBlock>>(run, options, blocks, args);
#if !defined(RONDO_FEW_INSTANTIATIONS)
      case 80:
        return Launch<AttendConfig<gpu::Bf16, 80, 1, kTestBlock>>(run, options, blocks, args);
      case 96:
        return Launch<AttendConfig<gpu::Bf16, 96, 2, kTestBlock>>(run, options, blocks, args);
      case 128:
        return Launch<AttendConfig<gpu::Bf16, 128, 2, kTestBlock>>(run, options, blocks, args);
      case 256:
        return Launch<AttendConfig<gpu::Bf16, 256, 1, kTestBlock>>(run, options, blocks, args);
#endif
    }
  }
#if !defined(RONDO_FEW_INSTANTIATIONS)
  if (p.type == ElementType::kFp16 && p.head_dim == 64) {
    return Launch<AttendConfig<gpu::Fp16, 64, 1, kTestBlock>>(run, options, blocks, args);
  }
  if (p.type == ElementType::kFp16 && p.head_dim == 128) {
    return Launch<AttendConfig<gpu::Fp16, 128, 1, kTestBlock>>(run, options, blocks, args);
  }
#endif
  RONDO_CHECK(false);
  return {};
}

}  // namespace rondo::cuda
