// Sees the size of every allocation of the test program that links it; for tests that a reader does not allocate by
// what a bad file claims.
#pragma once

#include <cstddef>

namespace rondo {

void ForgetAllocations();
size_t LargestAllocation();  // bytes of the largest single operator new since then

}  // namespace rondo
