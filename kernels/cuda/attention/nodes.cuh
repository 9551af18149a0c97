// Kernels on nodes alone: merging two neighbours, finishing the root. For whoever collects nodes of several shards.
#pragma once

#include "kernels/cuda/attention/node_partial.cuh"

namespace rondo::cuda {

inline constexpr int kNodeThreads = 128;

// Row and head of the calling warp, one after the other; false past the last.
RONDO_DEVICE bool RowOfWarp(int64_t rows, int heads, int64_t* row, int* head) {
  const int64_t warp = int64_t{gpu::CtaIndex()} * (kNodeThreads / 32) + gpu::ThreadIndex() / 32;
  *row = warp / heads;
  *head = static_cast<int>(warp % heads);
  return *row < rows;
}

// left <- merge(left, right); right covers the blocks after left's. The first node of each is meant.
template <int D>
RONDO_KERNEL(kNodeThreads, 1)
MergeNodesKernel(RONDO_GRID_CONSTANT const NodeArgs left, RONDO_GRID_CONSTANT const NodeArgs right, int64_t rows,
                 int heads) {
  int64_t row;
  int head;
  if (!RowOfWarp(rows, heads, &row, &head)) return;
  NodePartial<D> a, b;
  a.Load(left, 0, row, head);
  b.Load(right, 0, row, head);
  a.Merge(b);
  gpu::WarpSync();  // all lanes have read m and l
  a.Store(left, 0, row, head);
}

// Rows of the root, finished.
template <class Element, int D>
RONDO_KERNEL(kNodeThreads, 1)
FinishNodesKernel(RONDO_GRID_CONSTANT const NodeArgs root, RONDO_GRID_CONSTANT const OutputArgs output, int64_t rows,
                  int heads) {
  int64_t row;
  int head;
  if (!RowOfWarp(rows, heads, &row, &head)) return;
  NodePartial<D> partial;
  partial.Load(root, 0, row, head);
  partial.template Finish<Element>(output, row, head);
}

}  // namespace rondo::cuda
