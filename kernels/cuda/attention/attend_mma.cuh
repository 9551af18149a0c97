// Attention of many rows (prefill) on tensor cores of sm_80 and up: mma.sync, cp.async, ldmatrix. One CTA takes a tile
// of rows of one query head through all keys they see, block by block, and folds the blocks' partials along the fixed
// tree.
//
// Why a row's bits depend on nothing but the row and its keys:
// - tiles of keys begin at multiples of 64 from the block's start, whatever the rows;
// - a tile a row does not see multiplies its sums by 1 and adds zeros to them, so it makes no difference whether the
// other
//   rows of the CTA made us compute it. (Taken for granted: mma.sync with a zero row of A returns that row of C.)
// - keys no row of the CTA sees are loaded as zeros. Where values are not finite at keys that some rows see and others
// do
//   not, 0 * v would spoil the latter: those rows are then done one at a time.
#pragma once

#include "kernels/cuda/attention/attend_tile.cuh"

namespace rondo::cuda {

// CTAs stay and take one tile of rows after another, later rows first: under a causal mask those take longest. Every
// other round is dealt in reverse, which evens out what the CTAs get.
template <class C>
RONDO_KERNEL(C::kThreads, C::kCtasPerMultiprocessor)
AttendMma(RONDO_GRID_CONSTANT const AttentionArgs args) {
  const int rows = static_cast<int>(args.query.rows);
  const int tiles = (rows + C::kRows - 1) / C::kRows;
  const int columns = args.q_heads * C::kValueParts;  // heads, and parts of their values
  const int items = tiles * columns;
  const int ctas = gpu::CtaCount();
  for (int round = 0; round * int64_t{ctas} < items; ++round) {
    const int seat = round % 2 == 0 ? gpu::CtaIndex() : ctas - 1 - gpu::CtaIndex();
    const int64_t item = round * int64_t{ctas} + seat;
    if (item >= items) continue;
    // Heads that share keys run side by side and find them in L2.
    const int head = static_cast<int>(item) % columns / C::kValueParts;
    const int part = static_cast<int>(item) % C::kValueParts;
    const int begin = (tiles - 1 - static_cast<int>(item) / columns) * C::kRows;
    const int end = begin + C::kRows < rows ? begin + C::kRows : rows;
    int step = end - begin;  // all rows at once; should that fail, all over again with one at a time
    for (int row = begin; row < end;) {
      AttendTile<C> tile(args, head, part, row, step);
      if (tile.Run()) {
        row += step;
      } else {
        step = 1;
      }
    }
  }
}

}  // namespace rondo::cuda
