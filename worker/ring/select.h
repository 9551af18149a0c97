// What each strategy of the ring would cost for one layer of a problem, and the choice between them; used by RingAttend
// and RingAttention. Pure: every rank comes to the same numbers.
#pragma once

#include "rondo/ring.h"
#include "worker/ring/layout.h"

namespace rondo {

// The choice for queries and blocks already dealt. `wanted` other than kAuto is taken as it is; without rates, or on
// one rank, kAuto is pass-KV.
RingChoice ChooseFor(const AttentionShape& shape, const MaskSpec& mask, const RingLayout& layout, RingStrategy wanted,
                     const RingRates& rates);

}  // namespace rondo
