// Natural-log LSE from a finished partial; used by every CPU kernel's Finish.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/cpu/attention/definition.h"

namespace rondo::attention {

// The one place with a libm logarithm: lse is reported, and never feeds back into an answer, so its last bit may
// differ between C libraries.
inline float NaturalLse(float m, float l) {
  if (l == 0) return -std::numeric_limits<float>::infinity();
  return static_cast<float>((static_cast<double>(m) + std::log2(static_cast<double>(l))) * kLn2);
}

}  // namespace rondo::attention
