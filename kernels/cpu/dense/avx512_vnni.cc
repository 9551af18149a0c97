// The AVX-512 dense kernels with vpdpbusd in the q8 matmul.
#include "kernels/cpu/dense/avx512_table.h"
#include "kernels/cpu/dense/cpu_dense.h"
#include "kernels/cpu/dense/matmul_q8_vnni.h"
#include "kernels/cpu/simd/dot_vnni.h"

namespace rondo {
namespace {
constexpr DenseOps kOps = Avx512Table<MultiplyQ8Vnni<simd::DotVnni>>();
}  // namespace

const DenseKernels* Avx512VnniDense() {
  static const CpuDense kernels(kOps);
  return &kernels;
}

}  // namespace rondo
