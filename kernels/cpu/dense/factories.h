// The dense kernels of the CPU family, one object an instruction set, all with the same bits; used by the registry and
// tests.
#pragma once

#include "rondo/dense_kernels.h"

namespace rondo {

// Static objects, never null. The caller has asked CPUID: calling a kernel the CPU lacks raises SIGILL.
const DenseKernels* PortableDense();  // scalar loops with -mfma: the definition of the bits
const DenseKernels* Avx2Dense();      // AVX2, FMA, F16C
const DenseKernels* Avx512Dense();    // AVX-512 F, BW, VL, DQ; int8 products by vpdpbusd where CPUID has VNNI
const DenseKernels* WideDense();      // the AVX-512 kernels' text on pairs of AVX2 registers, for tests

}  // namespace rondo
