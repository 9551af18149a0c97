// The AVX-512 kernels' text over pairs of AVX2 registers, so that hosts without AVX-512 test its arithmetic.
#include "kernels/cpu/dense/cpu_dense.h"
#include "kernels/cpu/dense/elementwise.h"
#include "kernels/cpu/dense/factories.h"
#include "kernels/cpu/dense/matmul_f32.h"
#include "kernels/cpu/dense/matmul_q8.h"
#include "kernels/cpu/dense/matmul_q8_vnni.h"
#include "kernels/cpu/simd/dot_vnni.h"

namespace rondo {
namespace {

constexpr DenseOps kOps = {
    .name = "wide",
    .panel_rows = kPanelRows,
    .tile_tokens = kTileTokens,
    .quantise = QuantiseBlocks<simd::Wide>,
    .matmul_f32 = MatMulF32<simd::Wide, 12>,
    .matmul_q8 = MatMulQ8<MultiplyQ8Vnni<simd::DotWide>>,
    .dequantise = DequantiseWholeRow,
    .rms_norm = RmsNormRow<simd::Wide>,
    .rope = RopeRow<simd::Wide>,
    .gate = GateElements<simd::Wide>,
    .add = AddElements<simd::Wide>,
};

}  // namespace

const DenseKernels* WideDense() {
  static const CpuDense kernels(kOps);
  return &kernels;
}

}  // namespace rondo
