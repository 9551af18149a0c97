#include "worker/ring/deal.h"

#include <bit>
#include <cstdint>
#include <cstdlib>

namespace rondo {
namespace {

// Sizes differ by at most one, the longer ones first.
int64_t PieceSize(int64_t units, int64_t pieces, int64_t piece) {
  return units / pieces + (piece < units % pieces ? 1 : 0);
}

// The number of [least, most] that the highest power of two divides; of equals the nearest to `ideal`.
int64_t MostAligned(int64_t least, int64_t ideal, int64_t most) {
  const auto zeros = [](int64_t x) { return x == 0 ? 64 : std::countr_zero(static_cast<uint64_t>(x)); };
  int64_t best = ideal;
  for (int64_t x = least; x <= most; ++x) {
    if (zeros(x) > zeros(best) || (zeros(x) == zeros(best) && std::abs(x - ideal) < std::abs(best - ideal))) best = x;
  }
  return best;
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

void DealAligned(int64_t units, int world, std::vector<int>& owners) {
  const int64_t slack = units / world / 32;
  int64_t ideal = 0;
  int64_t done = 0;
  for (int rank = 0; rank < world; ++rank) {
    ideal += PieceSize(units, world, rank);
    const int64_t border = rank + 1 == world ? units : MostAligned(ideal - slack, ideal, ideal + slack);
    owners.insert(owners.end(), border - done, rank);
    done = border;
  }
}

}  // namespace rondo
