// NCCL's unique id on its way from rank 0 to the others, with the epoch it is of; used by MakeNcclTransport.
//
// It travels by a broadcast of the host transport at launch, before anything else of NCCL. That is the group's own
// channel: a rank of another mpirun cannot be on it, and the epoch in the message guards against one that is left over.
#pragma once

#include "rondo/transport.h"
#include "worker/transport/nccl/nccl_api.h"

namespace rondo {

// Rank 0 draws the id. FAILED_PRECONDITION where rank 0 is of another epoch: "NCCL unique id of epoch 6 from rank 0
// refused: this rank is of epoch 7". All ranks call it.
absl::StatusOr<NcclUniqueId> ExchangeUniqueId(Transport& control, NcclApi& nccl, uint64_t epoch, absl::Time deadline);

}  // namespace rondo
