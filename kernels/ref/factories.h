// The reference kernels: plain loops in double, the yardstick for accuracy; used by the registry and tests.
#pragma once

#include "rondo/attention_kernels.h"
#include "rondo/dense_kernels.h"

namespace rondo {

// Static objects, never null.
const AttentionKernels* RefAttention();
const DenseKernels* RefDense();

}  // namespace rondo
