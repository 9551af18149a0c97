// A cuBLASLt on the host, of the calls that LtMatMul makes: column-major products by plain loops, checked descriptors,
// and a heuristic that offers split-K first. Linked in place of the library, from its own header; used by LtMatMul's
// test.
#pragma once

#include <cstdint>

namespace rondo::cuda {

struct FakeCublasLt {
  int heuristics = 0;  // times an algorithm was asked for
  int products = 0;
  int64_t columns = 0;      // of every product: they must all have the same
  bool only_split = false;  // the heuristic offers nothing whole
  bool uneven = false;      // it offers one first whose last row is a little off
  bool fail_create = false;
  int live = 0;  // handles, descriptors and workspaces not yet given back
};

// One for the process; tests assign a fresh one.
FakeCublasLt& Fake();

}  // namespace rondo::cuda
