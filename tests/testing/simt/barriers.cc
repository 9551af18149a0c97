#include "tests/testing/simt/barriers.h"

namespace rondo::simt {
namespace {

void Arrive(NamedBarrier& barrier, int threads) {
  ++ThisCta().counters().barriers;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
}

void ArriveAndWait(int id, int threads, CallSite site) {
  Cta& cta = ThisCta();
  NamedBarrier& barrier = cta.barrier(id);
  const uint64_t generation = barrier.generation;
  Arrive(barrier, threads);
  if (barrier.generation == generation) cta.WaitWhile(&barrier.generation, generation, site);
}

}  // namespace

void CtaSync(CallSite site) {
  Cta& cta = ThisCta();
  ArriveAndWait(0, cta.threads(), site);
  ++cta.self().epoch;
}

bool CtaSyncOr(bool mine, CallSite site) {
  Cta& cta = ThisCta();
  // Said before the first barrier and read after it. Between the two nobody uses the other slot, so it can be cleared
  // for the next call.
  const int slot = static_cast<int>(cta.self().votes++ % 2);
  if (mine) cta.vote(slot) = true;
  ArriveAndWait(0, cta.threads(), site);
  const bool answer = cta.vote(slot);
  cta.vote(1 - slot) = false;
  ArriveAndWait(0, cta.threads(), site);
  ++cta.self().epoch;
  return answer;
}

void NamedBarrierSync(int id, int threads, CallSite site) {
  ThisCta().shared().StopDetectingRaces();
  ArriveAndWait(id, threads, site);
}

void NamedBarrierArrive(int id, int threads, CallSite) {
  ThisCta().shared().StopDetectingRaces();
  Arrive(ThisCta().barrier(id), threads);
  ThisCta().Preempt();
}

bool WarpAny(bool mine, CallSite site) {
  struct Argument {
    bool in, out;
  } argument{mine, false};
  WarpCollective(&argument, site, [](Argument** lanes) {
    bool any = false;
    for (int lane = 0; lane < kWarp; ++lane) any |= lanes[lane]->in;
    for (int lane = 0; lane < kWarp; ++lane) lanes[lane]->out = any;
  });
  return argument.out;
}

void WarpSync(CallSite site) { WarpAny(false, site); }

}  // namespace rondo::simt
