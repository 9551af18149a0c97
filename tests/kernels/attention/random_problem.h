// Random masks, score transforms and whole problems over all of them; used by the attention tests.
#pragma once

#include <random>

#include "tests/kernels/attention/problem.h"

namespace rondo {

// Causal or not, windows, packed sequences with boundaries at, beside and far from block edges, some of them empty.
void SetRandomMask(Problem* problem, std::mt19937& random);

// Soft cap, ALiBi slopes, sinks.
void SetRandomScore(Problem* problem, std::mt19937& random);

// Everything random, small enough that the portable kernel takes about a millisecond. Keys that no row sees are NaN.
Problem RandomConfiguration(uint32_t seed);

}  // namespace rondo
