#include "tests/testing/simt/mbarrier.h"

#include <cstring>
#include <string>

namespace rondo::simt {
namespace {

// The state lies beside the machine, where it can be waited for; the 8 bytes in shared memory hold its number, so that
// a barrier that was overwritten or never initialised is found out.
constexpr uint64_t kMagic = 0x6d62617272000000;  // "mbarr", then the number

MbarrierState& State(uint32_t address, CallSite site) {
  Cta& cta = ThisCta();
  uint64_t word;
  std::memcpy(&word, cta.shared().At(address, 8, 8, site), 8);
  const uint64_t number = word & 0xffffff;
  if ((word & ~uint64_t{0xffffff}) != kMagic || number >= cta.mbarriers().size()) {
    cta.Fail("no mbarrier at shared address " + std::to_string(address), site);
  }
  return cta.mbarriers()[number];
}

void EndPhaseIfComplete(MbarrierState& state) {
  if (state.pending > 0 || state.bytes != 0) return;
  state.pending = state.count;
  ++state.phase;
}

}  // namespace

void MbarrierInit(uint32_t address, int count, CallSite site) {
  Cta& cta = ThisCta();
  cta.shared().StopDetectingRaces();
  const uint64_t word = kMagic | cta.mbarriers().size();
  cta.mbarriers().push_back({.count = count, .pending = count});
  std::memcpy(cta.shared().At(address, 8, 8, site), &word, 8);
}

void MbarrierArrive(uint32_t address, CallSite site) {
  MbarrierState& state = State(address, site);
  if (state.pending == 0) ThisCta().Fail("mbarrier: more arrivals than the phase counts", site);
  --state.pending;
  EndPhaseIfComplete(state);
  ThisCta().Preempt();
}

void MbarrierArriveExpect(uint32_t address, uint32_t bytes, CallSite site) {
  State(address, site).bytes += bytes;
  MbarrierArrive(address, site);
}

void MbarrierWait(uint32_t address, uint32_t parity, CallSite site) {
  const MbarrierState& state = State(address, site);
  if (state.phase % 2 == parity) ThisCta().WaitWhile(&state.phase, state.phase, site);
}

void MbarrierComplete(uint32_t address, uint32_t bytes, CallSite site) {
  MbarrierState& state = State(address, site);
  state.bytes -= bytes;
  EndPhaseIfComplete(state);
}

}  // namespace rondo::simt
