// The constants of the CPU family's attention arithmetic; used by every kernel in kernels/cpu/attention. Changing one
// changes the bits of every answer. docs/ALGORITHMS.md, "Attention", is the prose.
#pragma once

#include <cstdint>

namespace rondo::attention {

// Scores are in units of log2: q is multiplied by scale * log2(e) before anything else.
inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;

// A visible score is clamped into [kMinScore, kMaxScore] and NaN counts as kMinScore, so that m is always an integer
// float that int32 holds, above kEmptyMax, and 1.5 * 2^23 + s still rounds to an integer.
inline constexpr float kMinScore = -1048575.0f;
inline constexpr float kMaxScore = 1048576.0f;

// p = 2^(s - m) with s first raised to m - kFlushDepth, where it is exactly +0: anything below 2^-126 is +0.
inline constexpr float kFlushDepth = 127.0f;
inline constexpr float kSmallestNormal = 0x1p-126f;

// 2^f for f in [-1/2, 1/2], Horner by fma: minimax of degree 5, relative error 2.4e-7, exactly 1 at 0.
inline constexpr float kExp2[6] = {
    1.0f, 6.93147186440e-1f, 2.40226507166e-1f, 5.55050892435e-2f, 9.61793571097e-3f, 1.33336498402e-3f};

// What a NaN output becomes; which NaN an fma returns depends on the order the compiler gives its operands.
inline constexpr uint32_t kNaN = 0x7fc00000;

}  // namespace rondo::attention
