#include "worker/ring/deal.h"

namespace rondo {
namespace {

// Sizes differ by at most one, the longer ones first.
int64_t PieceSize(int64_t units, int64_t pieces, int64_t piece) {
  return units / pieces + (piece < units % pieces ? 1 : 0);
}

}  // namespace

// Longer pieces first: late pieces see more keys, so the odd units go where they cost least, and no two ranks differ by
// more than one unit.
void DealZigzag(int64_t units, absl::Span<const int> order, std::vector<int>& owners) {
  const auto world = static_cast<int64_t>(order.size());
  const int64_t pieces = 2 * world;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t slot = piece < world ? piece : pieces - 1 - piece;
    owners.insert(owners.end(), PieceSize(units, pieces, piece), order[slot]);
  }
}

void DealContiguous(int64_t units, absl::Span<const int> order, std::vector<int>& owners) {
  const auto world = static_cast<int64_t>(order.size());
  for (int64_t slot = 0; slot < world; ++slot) {
    owners.insert(owners.end(), PieceSize(units, world, slot), order[slot]);
  }
}

}  // namespace rondo
