// Barriers and shuffles: bar.sync, named barriers, and what a warp exchanges.
#pragma once

#include <cstdint>

#include "tests/testing/simt/cta.h"

namespace rondo::simt {

// All threads of the CTA.
void CtaSync(CallSite site);
// The same, and whether any thread said yes.
bool CtaSyncOr(bool mine, CallSite site);
// `threads` of the CTA, counting those that arrive without waiting. Barrier 0 is CtaSync's.
void NamedBarrierSync(int id, int threads, CallSite site);
void NamedBarrierArrive(int id, int threads, CallSite site);

template <class T>
T ShuffleXor(T value, int mask, CallSite site) {
  struct Argument {
    T in, out;
  } mine{value, value};
  ++ThisCta().counters().shuffles;
  WarpCollective(&mine, site, [&](Argument** lanes) {
    for (int lane = 0; lane < kWarp; ++lane) lanes[lane]->out = lanes[lane ^ mask]->in;
  });
  return mine.out;
}

bool WarpAny(bool mine, CallSite site);
void WarpSync(CallSite site);

}  // namespace rondo::simt
