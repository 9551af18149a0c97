// How a layer ends in every strategy of the ring; used by pass-KV and pass-Q.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/ring/layout.h"
#include "worker/ring/node_forest.h"
#include "worker/ring/ring_context.h"

namespace rondo {

// One empty forest for each strip; whatever a failed layer left in them goes back to `pool`.
void ResetForests(absl::Span<const Strip> strips, std::vector<NodeForest>& forests, NodePool& pool);

// Finishes the rows of one strip into out and lse (null: not wanted), which are those of all strips, and gives the
// forest's storage back.
void FinishStrip(RingContext& context, const Strip& strip, NodeForest& forest, float* out, float* lse, NodePool& pool);

// The same for the rows of all strips of a layer that was skipped: zeros with lse -inf.
void SkipStrips(RingContext& context, absl::Span<const Strip> strips, absl::Span<NodeForest> forests, float* out,
                float* lse, NodePool& pool);

// Whether all ranks go on. `stop`: rank 0's header of this layer said that it is the last. The last layer ends with an
// agreement of all ranks, so that none takes rows computed after somebody stopped for a result.
absl::Status EndLayer(RingContext& context, int32_t layer, int64_t position, bool skipped, bool stop);

}  // namespace rondo
