// Deals a sequence's units (canonical blocks, or grains of query rows) to ranks; used by the shard plan of a job and by
// the shares of a ring problem, so that both spread work alike.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace rondo {

// Appends the owner of each of `units` units: 2 * world pieces, slot r gets pieces r and 2 * world - 1 - r, and slot r
// is rank order[r]. For causal attention, where late units see more.
void DealZigzag(int64_t units, absl::Span<const int> order, std::vector<int>& owners);

// The same with one piece a rank: for attention in which every unit sees as much, or only its neighbours.
void DealContiguous(int64_t units, absl::Span<const int> order, std::vector<int>& owners);

// As DealContiguous for ranks 0 to world - 1, but borders move by up to 1/32 of a share to where the tree has its
// borders: fewer nodes of a decode step for at most that much more memory and attention on one rank.
void DealAligned(int64_t units, int world, std::vector<int>& owners);

}  // namespace rondo
