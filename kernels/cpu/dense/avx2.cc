#include "kernels/cpu/dense/factories.h"
namespace rondo {
const DenseKernels* Avx2Dense() { return PortableDense(); }
const DenseKernels* Avx512Dense() { return PortableDense(); }
const DenseKernels* WideDense() { return PortableDense(); }
}  // namespace rondo
