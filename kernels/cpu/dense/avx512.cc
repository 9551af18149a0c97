// The dense kernels compiled for AVX-512. Without VNNI the q8 matmul is the AVX2 one: 512-bit maddubs would gain
// little.
#include "kernels/cpu/dense/avx512_table.h"
#include "kernels/cpu/dense/cpu_dense.h"
#include "kernels/cpu/dense/factories.h"
#include "kernels/cpu/dense/matmul_q8_avx2.h"

namespace rondo {
namespace {
constexpr DenseOps kOps = Avx512Table<MultiplyQ8Avx2>();
}  // namespace

const DenseKernels* Avx512Dense() {
  static const CpuDense kernels(kOps);
  static const bool vnni = __builtin_cpu_supports("avx512vnni");
  return vnni ? Avx512VnniDense() : &kernels;
}

}  // namespace rondo
