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

// The most that the forests of a rank's strips and the nodes being added can hold.
size_t ForestBytes(const AttentionShape& shape, const RingLayout& layout, int rank);

// Finishes the rows of all strips into out and lse (null: not wanted) and gives the forests' storage back; rows of a
// layer that was `skipped` are zeros with lse -inf.
void FinishStrips(RingContext& context, absl::Span<const Strip> strips, absl::Span<NodeForest> forests, bool skipped,
                  float* out, float* lse, NodePool& pool);

// Whether all ranks go on. `stop`: rank 0's header of this layer said that it is the last. The last layer ends with an
// agreement of all ranks, so that none takes rows computed after somebody stopped for a result.
absl::Status EndLayer(RingContext& context, int32_t layer, int64_t position, bool skipped, bool stop);

}  // namespace rondo
