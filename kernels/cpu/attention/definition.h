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

// 2^f for f in [-1/2, 1/2], Horner by fma: minimax of degree 5 with p(0) = 1, relative error 1.2e-7.
inline constexpr float kExp2[6] = {
    1.0f, 6.93146977597e-1f, 2.40222420811e-1f, 5.55073374483e-2f, 9.67151291977e-3f, 1.32647276003e-3f};

// (2^f - 1) / f for f in [-1/2, 1/2], of the soft cap's tanh: minimax, relative error 4.7e-7.
inline constexpr float kExp2Minus1[5] = {6.93147143506e-1f, 2.40223513394e-1f, 5.55050021395e-2f, 9.66624572523e-3f,
                                         1.33335390581e-3f};

// Below this exponent of 2 the soft cap's tanh is 1 in float: 1 - 2^-64 rounds to it.
inline constexpr float kFlatTanh = -64.0f;

// What a NaN output becomes; which NaN an fma returns depends on the order the compiler gives its operands.
inline constexpr uint32_t kNaN = 0x7fc00000;

}  // namespace rondo::attention
