// A GPU module's table over host memory, whose every call can be counted and made to fail; used by the tests of what
// worker/device builds on the table.
#pragma once

#include <map>
#include <set>
#include <string>

#include "kernels/cuda/module.h"

namespace rondo::testing {

struct FakeTable {
  std::string fail;                  // the call that fails
  std::map<std::string, int> calls;  // of the kernels
  uint64_t free_bytes = 1000;
  int allocated = 0;  // of all kinds, not yet given back
  int pinned = 0;
  uint64_t room = uint64_t{1} << 40;      // of the device's memory; what is more than that fails
  std::map<void*, uint64_t> memory = {};  // of the device, not yet given back
  void* stream = nullptr;                 // that the last kernel was given
  std::set<int> refused_head_dims = {};
  bool refuses_maps = false;  // of capability 9.0
  int kernel = 0;             // of the last attend
  int copies = 0;
  int ctas = 0;  // of the last attend
  int waits = 0;
};

// One for the process; tests assign a fresh one.
FakeTable& Fake();
const rondo_cuda_module_v1* FakeModule();

}  // namespace rondo::testing
