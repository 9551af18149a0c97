// The dense kernels compiled for AVX2, FMA and F16C.
#include "kernels/cpu/dense/cpu_dense.h"
#include "kernels/cpu/dense/elementwise.h"
#include "kernels/cpu/dense/factories.h"
#include "kernels/cpu/dense/matmul_f32.h"
#include "kernels/cpu/dense/matmul_q8.h"
#include "kernels/cpu/dense/matmul_q8_avx2.h"
#include "kernels/cpu/dense/token_groups.h"

namespace rondo {
namespace {

constexpr DenseOps kOps = {
    .name = "avx2",
    .panel_rows = kPanelRows,
    .tile_tokens = kTileTokens,
    .quantise = QuantiseBlocks<simd::Avx2>,
    .pack_groups = MultiplyQ8Avx2::kPackGroups,
    .group_bytes = GroupBytes,
    .group_tokens = MultiplyQ8Avx2::kTokens,
    .matmul_f32 = MatMulF32<simd::Avx2, 6>,  // 12 accumulators, 2 weights, 1 broadcast: 15 of 16 registers
    .matmul_q8 = MatMulQ8<MultiplyQ8Avx2>,
    .dequantise = DequantiseWholeRow,
    .rms_norm = RmsNormRow<simd::Avx2>,
    .rope = RopeRow<simd::Avx2>,
    .gate = GateElements<simd::Avx2>,
    .add = AddElements<simd::Avx2>,
};

}  // namespace

const DenseKernels* Avx2Dense() {
  static const CpuDense kernels(kOps);
  return &kernels;
}

}  // namespace rondo
