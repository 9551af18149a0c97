// bfloat16 and IEEE half as 16 bits, to and from float, rounding to nearest even; used by the emulated tensor cores and
// by the tests of CUDA kernels.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace rondo::simt {

inline float Bf16ToFloat(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }

inline uint16_t FloatToBf16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if (std::isnan(f)) return 0x7fff;  // the NaN of cvt.rn.bf16
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

inline float Fp16ToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31;
  const uint32_t fraction = h & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float value = static_cast<float>(fraction) * 0x1p-24f;  // denormal
  return sign != 0 ? -value : value;
}

inline uint16_t FloatToFp16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const auto sign = static_cast<uint16_t>((u >> 16) & 0x8000);
  const float a = std::fabs(f);
  if (std::isnan(f)) return 0x7fff;                                // the NaN of cvt.rn.f16
  if (a >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);  // rounds past the largest half, 65504
  if (a < 0x1p-14f) {                                              // denormal: a multiple of 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(a * 0x1p24f)));
  }
  const uint32_t rounded = std::bit_cast<uint32_t>(a) + 0xfff + ((u >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

}  // namespace rondo::simt
