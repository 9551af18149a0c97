// Turns the shares of a ring problem into what the strategies work on; used by RingAttend and the selector.
#pragma once

#include "rondo/ring.h"
#include "worker/ring/layout.h"

namespace rondo {

RingLayout ProblemLayout(const RingProblem& problem, const RingShares& shares);

// The problem's shape with everything Finish needs in it.
AttentionShape FullShape(const RingProblem& problem);

}  // namespace rondo
