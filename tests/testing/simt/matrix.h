// ldmatrix and mma.sync.m16n8k16 of sm_80, lane by lane as the PTX ISA draws their fragments ("Matrix
// multiply-accumulate operation using mma instruction", "Warp-level matrix load instruction: ldmatrix").
#pragma once

#include <cstdint>

#include "tests/testing/simt/options.h"

namespace rondo::simt {

enum class Half { kBf16, kFp16 };
float ToFloat(Half type, uint16_t bits);

// Four 8x8 matrices of 16-bit elements: lanes 8i .. 8i + 7 give the addresses of the rows of matrix i, registers[i] is
// the lane's part of it.
void LoadMatrix4(uint32_t (&registers)[4], uint32_t address, bool transposed, CallSite site);

// d += a * b; a 16x16, b 16x8, d 16x8. Products are exact, added in the order of k, rounded each time: not the order of
// the hardware, which nobody documents.
void MultiplyAdd(Half type, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, CallSite site);

}  // namespace rondo::simt
