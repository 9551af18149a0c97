// The reference kernels, plain loops in double: what accuracy is measured against. Used by kernels/registry.cc and
// tests.
#pragma once

#include "rondo/attention_kernels.h"
#include "rondo/dense_kernels.h"

namespace rondo {

const AttentionKernels* RefAttention();
const DenseKernels* RefDense();

}  // namespace rondo
