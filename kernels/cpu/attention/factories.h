// The attention kernels of the CPU family, one object an instruction set; used by kernels/registry.cc and tests. All
// of them give the same bits (docs/ALGORITHMS.md, "Attention").
#pragma once

#include "rondo/attention_kernels.h"

namespace rondo {

// Each lives for ever. Calling a kernel whose instructions the CPU lacks is undefined: kernels/registry.h asks first.
const AttentionKernels* PortableAttention();  // plain code, one element at a time: the definition; needs FMA
const AttentionKernels* Avx2Attention();      // AVX2 and FMA
const AttentionKernels* Avx512Attention();    // AVX-512 F, BW, VL and DQ
const AttentionKernels* WideAttention();      // the sixteen-lane algorithm on AVX2 register pairs, for tests

}  // namespace rondo
