// What every transport must do, as checks that one rank runs while the others run the same: for ranks as threads and
// for ranks under mpirun.
#pragma once

#include <cstddef>

#include "rondo/transport.h"

namespace rondo::testing {

// Ring steps of these sizes, empty and unequal ones among them; rank 1 comes `delay` late. Two steps are in flight
// at once and are waited for in the other order.
void CheckRingSteps(Transport& transport, absl::Duration delay);
// The given number of bytes once round the ring.
void CheckOneRingStep(Transport& transport, size_t bytes);
// Shorter messages than the buffer, and messages to oneself.
void CheckShortAndSelf(Transport& transport);
void CheckAllGather(Transport& transport);
void CheckBroadcast(Transport& transport);
// Ready says when a wait would not wait, and never blocks.
void CheckReady(Transport& transport);
// Bytes sent are counted without those to oneself.
void CheckSentBytes(Transport& transport);
// Rank 0 sends more than rank 1 takes: INTERNAL with both sizes, and rank 1 is dead. Ends the transport.
void CheckTooLong(Transport& transport);
// A receive that nobody sends for ends at its deadline, and the transport is dead. Ends the transport.
void CheckDeadline(Transport& transport);
// Abort from another thread ends a wait of a minute at once. Ends the transport.
void CheckAbort(Transport& transport);

}  // namespace rondo::testing
