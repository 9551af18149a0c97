// Runs a kernel on the emulated machine; what the tests of CUDA kernels call.
#pragma once

#include <functional>
#include <string>

#include "tests/testing/simt/options.h"

namespace rondo::simt {

struct Report {
  std::string fault;  // empty: ran to its end
  Counters counters;
  bool ok() const { return fault.empty(); }
};

// Runs `kernel` (a call of the kernel function with its arguments bound) in `ctas` CTAs of `threads` threads, one CTA
// after another. Stops at the first fault.
Report Launch(int ctas, int threads, size_t shared_bytes, const Options& options, const std::function<void()>& kernel);

// The schedules worth running, each with slow and fast copies and tensor core; `seed` varies the random ones.
std::vector<Options> AllSchedules(uint64_t seed);

}  // namespace rondo::simt
