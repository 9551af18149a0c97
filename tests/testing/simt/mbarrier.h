// mbarriers of sm_90: 8 bytes of shared memory that count arrivals and bytes of a phase.
#pragma once

#include <cstdint>

#include "tests/testing/simt/cta.h"

namespace rondo::simt {

// `count` arrivals end a phase, once the bytes expected in it have come. Phases alternate in parity, the first is 0.
void MbarrierInit(uint32_t address, int count, CallSite site);
void MbarrierArrive(uint32_t address, CallSite site);
// Expects so many bytes more in this phase, and arrives.
void MbarrierArriveExpect(uint32_t address, uint32_t bytes, CallSite site);
// Returns once the phase of this parity has ended, which it also has while the barrier is in the phase after it; so a
// fresh barrier lets those pass who wait for parity 1.
void MbarrierWait(uint32_t address, uint32_t parity, CallSite site);

// Bytes have arrived: called by the copy engine.
void MbarrierComplete(uint32_t address, uint32_t bytes, CallSite site);

}  // namespace rondo::simt
