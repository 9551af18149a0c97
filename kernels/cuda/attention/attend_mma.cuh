// Attention of many rows (prefill) on tensor cores of sm_80 and up: mma.sync, cp.async, ldmatrix. One CTA takes a tile of
// rows of one query head through all keys they see, block by block, and folds the blocks' partials along the fixed tree.
//
// Why a row's bits depend on nothing but the row and its keys:
// - tiles of keys begin at multiples of 64 from the block's start, whatever the rows;
// - a tile a row does not see multiplies its sums by 1 and adds zeros to them, so it makes no difference whether the other
//   rows of the CTA made us compute it. (Taken for granted: mma.sync with a zero row of A returns that row of C.)
// - keys no row of the CTA sees are loaded as zeros; values that are not finite, at keys some rows see and others do
//   not, are dealt with row by row (MultiplyRowByRow).
#pragma once

#include "kernels/cuda/attention/attend_tile.cuh"

namespace rondo::cuda {

// CTAs stay and take one tile of rows after another, later rows first: under a causal mask those take longest. Every other
// round is dealt in reverse, which evens out what the CTAs get.
template <class C>
RONDO_KERNEL(C::kThreads, C::kCtasPerMultiprocessor)
AttendMma(RONDO_GRID_CONSTANT const AttentionArgs args) {
  const int64_t tiles = (args.query.rows + C::kRows - 1) / C::kRows;
  const int64_t items = tiles * args.q_heads;
  const int64_t ctas = gpu::CtaCount();
  for (int64_t round = 0; round * ctas < items; ++round) {
    const int64_t seat = round % 2 == 0 ? gpu::CtaIndex() : ctas - 1 - gpu::CtaIndex();
    const int64_t item = round * ctas + seat;
    if (item >= items) continue;
    // Heads that share keys run side by side and find them in L2.
    AttendTile<C> tile(args, static_cast<int>(item % args.q_heads), tiles - 1 - item / args.q_heads);
    tile.Run();
  }
}

}  // namespace rondo::cuda
