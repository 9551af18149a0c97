// The dense kernels this host can run, for parameterised tests.
#pragma once

#include <vector>

#include "kernels/cpu/dense/factories.h"

namespace rondo::testing {

inline bool HostHasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

// All of the CPU family that must give portable's bits.
inline std::vector<const DenseKernels*> FastDenseKernels() {
  std::vector<const DenseKernels*> kernels;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels = {Avx2Dense(), WideDense()};
  if (HostHasAvx512()) kernels.push_back(Avx512Dense());
  return kernels;
}

}  // namespace rondo::testing
