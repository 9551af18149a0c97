// Weights in double, straight from the file's blocks: the reference decoder's own reading of every weight type, apart
// from the kernels' so that one can catch the other.
#pragma once

#include <cstdint>

#include "rondo/dense_kernels.h"

namespace rondo {

// Row `row` of `weight`, exactly (every product and sum of a half, a small integer and another half fits a double).
void ReferenceRow(const WeightView& weight, int64_t row, double* out /* [cols] */);

}  // namespace rondo
