// cp.async of sm_80: 16-byte copies from global to shared memory that have landed only when their group was waited for.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tests/testing/simt/options.h"

namespace rondo::simt {

struct PendingCopy {
  uint32_t destination;
  const void* source;  // null: zeros
  CallSite site;
};

// Copies of one thread: those not yet committed, and the committed groups, oldest first.
struct CopyQueue {
  std::vector<PendingCopy> open;
  std::deque<std::vector<PendingCopy>> groups;
};

// The destination holds NaN from here until the copy lands.
void CopyAsync16(uint32_t destination, const void* source, bool valid, CallSite site);
void CommitCopies(CallSite site);
// Returns when at most `keep` of the thread's groups are pending.
void WaitCopies(int keep, CallSite site);

}  // namespace rondo::simt
