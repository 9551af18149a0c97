// Primitives of the dense kernels beyond kernels/cuda/device/device.h, for both sides: nvcc's and the emulator's.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace rondo::gpu {

#if defined(__CUDACC__)

// Rounded to nearest, as the division of CUDA C++ is.
RONDO_DEVICE float SquareRoot(float x) { return __fsqrt_rn(x); }

// The value of an IEEE half, exactly.
RONDO_DEVICE float FloatFromHalf(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }

// a - b for two bf16 in a word. On sm_80 there is no subtraction; the product with -1 is exact.
RONDO_DEVICE uint32_t SubtractBf16Pairs(uint32_t a, uint32_t b) {
  constexpr uint32_t kMinusOnes = 0xbf80bf80u;
  uint32_t difference;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(difference) : "r"(b), "r"(kMinusOnes), "r"(a));
  return difference;
}

// What is read once and should push nothing else out of the caches.
RONDO_DEVICE Word4 LoadOnce(const Word4* from) {
  Word4 w;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
               : "l"(from));
  return w;
}

#else

inline float SquareRoot(float x) { return std::sqrt(x); }

inline float FloatFromHalf(uint16_t bits) { return simt::Fp16ToFloat(bits); }

inline uint32_t SubtractBf16Pairs(uint32_t a, uint32_t b) {
  const auto subtract = [](uint32_t x, uint32_t y) {
    const float difference = simt::Bf16ToFloat(static_cast<uint16_t>(x)) - simt::Bf16ToFloat(static_cast<uint16_t>(y));
    return uint32_t{simt::FloatToBf16(difference)};
  };
  return subtract(a, b) | subtract(a >> 16, b >> 16) << 16;
}

inline Word4 LoadOnce(const Word4* from, Where w = Where::current()) { return Load(from, w); }

#endif

}  // namespace rondo::gpu
