// Attention kernels in plain scalar loops, for tests of the ring that must not depend on which vector kernels exist.
// They follow the seam's definition (blocks, tree, integer m), with std::exp2 in the place of the fixed polynomial.
#pragma once

#include "rondo/attention_kernels.h"

namespace rondo::testing {

// Of a family whose leaves are 2^leaf_level blocks, 0 to 2.
const AttentionKernels& PlainKernels(int32_t leaf_level = 0);

}  // namespace rondo::testing
