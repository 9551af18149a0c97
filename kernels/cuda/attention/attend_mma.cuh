// Attention of many rows (prefill) on tensor cores of sm_80 and up: mma.sync, cp.async, ldmatrix. One CTA takes a tile
// of rows of one query head through all keys they see, block by block, and folds the blocks' partials along the fixed
// tree.
//
// Why a row's bits depend on nothing but the row and its keys:
// - tiles of keys begin at multiples of 64 from the block's start, whatever the rows;
// - a tile a row does not see multiplies its sums by 1 and adds zeros to them, so it makes no difference whether other
//   rows of the CTA made us compute it. (Taken for granted: mma.sync with a zero row of A returns that row of C.)
// - keys no row of the CTA sees are loaded as zeros. Where values are not finite at keys that some rows see and others
//   do not, 0 * v would spoil the latter: those rows are then done one at a time.
#pragma once

#include "kernels/cuda/attention/attend_tile.cuh"
#include "kernels/cuda/attention/row_items.cuh"

namespace rondo::cuda {

template <class C>
RONDO_KERNEL(C::kThreads, C::kCtasPerMultiprocessor)
AttendMma(RONDO_GRID_CONSTANT const AttentionArgs args) {
  const RowItems<C> items(args);
  for (int round = 0; round < items.rounds(); ++round) {
    const int number = items.Number(round);
    if (number < 0) continue;
    const RowItem item = items.At(number);
    int step = item.end - item.begin;  // all rows at once; should that fail, all over again with one at a time
    for (int row = item.begin; row < item.end;) {
      AttendTile<C> tile(args, RowPlace(item.head, item.part, row, step));
      if (tile.Run()) {
        row += step;
      } else {
        step = 1;
      }
    }
  }
}

}  // namespace rondo::cuda
