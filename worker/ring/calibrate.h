// Measures what the ranks of a transport can do, for the selector; called once at start-up by the worker and the bench.
#pragma once

#include "absl/status/statusor.h"
#include "rondo/attention_kernels.h"
#include "rondo/ring.h"
#include "rondo/transport.h"

namespace rondo {

class ThreadPool;

// Collective, well under half a second: attention of the shape on every rank at once, then exchanges of 1 MiB round the
// ring. The slowest rank's figures, the same on all ranks. On one rank bytes_per_s is 0. Errors as the transport's.
absl::StatusOr<RingRates> MeasureRates(const AttentionKernels& kernels, const AttentionShape& shape,
                                       Transport& transport, ThreadPool& pool);

}  // namespace rondo
