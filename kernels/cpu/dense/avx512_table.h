// The table of the AVX-512 dense kernels around either inner q8 kernel; shared by the two translation units that need
// different compiler flags for it.
#pragma once

#include "kernels/cpu/dense/dense_ops.h"
#include "kernels/cpu/dense/elementwise.h"
#include "kernels/cpu/dense/matmul_f32.h"
#include "kernels/cpu/dense/matmul_q8.h"
#include "kernels/cpu/dense/token_groups.h"
#include "kernels/cpu/simd/avx512.h"

namespace rondo {

// Defined in avx512_vnni.cc; for CPUs with VNNI.
const DenseKernels* Avx512VnniDense();

namespace {

template <typename MultiplyQ8>
constexpr DenseOps Avx512Table() {
  return {
      .name = "avx512",
      .panel_rows = kPanelRows,
      .tile_tokens = kTileTokens,
      .quantise = QuantiseBlocks<simd::Avx512>,
      .pack_groups = MultiplyQ8::kPackGroups,
      .group_bytes = GroupBytes,
      .group_tokens = MultiplyQ8::kTokens,
      .matmul_f32 = MatMulF32<simd::Avx512, 12>,
      .matmul_q8 = MatMulQ8<MultiplyQ8>,
      .dequantise = DequantiseWholeRow,
      .rms_norm = RmsNormRow<simd::Avx512>,
      .rope = RopeRow<simd::Avx512>,
      .gate = GateElements<simd::Avx512>,
      .add = AddElements<simd::Avx512>,
  };
}

}  // namespace
}  // namespace rondo
