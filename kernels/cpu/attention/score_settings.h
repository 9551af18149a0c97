// How a call's score settings enter the arithmetic, each rounded once; used by portable and the tiled kernels.
#pragma once

#include "kernels/cpu/attention/definition.h"

namespace rondo::attention {

inline float CapInLog2(float softcap) { return static_cast<float>(softcap * kLog2E); }
inline float CapRate(float softcap) { return static_cast<float>(-2.0 / softcap); }
inline float BiasSlope(float alibi_slope) { return static_cast<float>(-alibi_slope * kLog2E); }
inline float SinkInLog2(float sink) { return static_cast<float>(sink * kLog2E); }

}  // namespace rondo::attention
