// The score transforms of a call in the units the kernels work in; used by the drivers, handed to the leaf functions.
#pragma once

#include <cstdint>

namespace rondo::attention {

// Scores s are in units of log2. None of it: cap == 0 and slopes == nullptr.
struct ScoreTransform {
  float cap = 0;                  // soft cap * log2(e)
  float cap_rate = 0;             // -2 / soft cap: tanh(|s| / cap) is made of 2^(|s| * cap_rate)
  const float* slopes = nullptr;  // -slope * log2(e) for every lane or head
};

}  // namespace rondo::attention
