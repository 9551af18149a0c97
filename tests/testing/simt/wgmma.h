// wgmma of sm_90: a warpgroup multiplies 64 rows at once, from shared memory or registers, beside its own instructions.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "tests/testing/simt/matrix.h"
#include "tests/testing/simt/options.h"

namespace rondo::simt {

// One product of the warpgroup, queued at the tensor core. Its accumulators hold NaN until a thread waits for its
// group.
struct WgmmaProduct;

// Products of one thread: not yet committed, and committed groups, oldest first.
struct WgmmaQueue {
  bool fenced = false;  // wgmma.fence since the registers were last the thread's own
  std::vector<std::shared_ptr<WgmmaProduct>> open;
  std::deque<std::vector<std::shared_ptr<WgmmaProduct>>> groups;
};

// A matrix descriptor: start, leading and stride byte offsets in units of 16, and the swizzle mode, of which 1, 128
// bytes, is known here. K-major: rows of 64 elements; groups of eight rows are `stride` apart. MN-major ("transposed"):
// lines of 64 elements along M or N; groups of eight k are `stride` apart, further 64 elements `leading` apart.
struct Descriptor {
  uint32_t start, leading, stride;
  Descriptor(uint64_t bits, CallSite site);
  // Shared address of an element; `mn` counts along M or N.
  uint32_t AddressOf(int mn, int k, bool mn_major) const;
};

struct WgmmaOperands {
  const uint32_t* a = nullptr;  // this lane's four registers, read as late as the product runs, or null:
  uint64_t descriptor_a = 0;
  uint64_t descriptor_b = 0;
  bool b_mn_major = false;
  bool accumulate = false;  // else d is overwritten
};

// d (64 x n, this thread's n / 2 elements) = a * b [+ d], k = 16.
void Wgmma(Half type, std::span<float> d, const WgmmaOperands& operands, CallSite site);
// Before the first product after a wait: what the thread did to its registers comes first.
void WgmmaFence();
void WgmmaCommit(CallSite site);
// Returns when at most `keep` of the thread's groups are unfinished.
void WgmmaWait(int keep, CallSite site);

}  // namespace rondo::simt
