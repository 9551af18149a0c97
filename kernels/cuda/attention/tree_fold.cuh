// The walk over the fixed binary tree of canonical blocks: which finished block is merged with which pending node, and
// when a node of the run is complete. Index arithmetic only; include/rondo/canonical.h has the definition. Used by the
// attention kernels; all threads of a CTA walk alike.
#pragma once

#include "kernels/cuda/attention/masks.cuh"
#include "kernels/cuda/device/device.h"

namespace rondo::cuda {

// The complete subtrees that tile a run of blocks, one after the other: DyadicNodes of canonical.h. With `whole`, one
// node above them all, for finished rows.
class NodeCursor {
 public:
  RONDO_DEVICE NodeCursor(int64_t begin, int64_t end, bool whole) : begin_(begin), run_end_(end), whole_(whole) {
    Measure();
  }
  RONDO_DEVICE bool done() const { return begin_ >= run_end_; }
  RONDO_DEVICE int index() const { return index_; }
  RONDO_DEVICE int level() const { return level_; }
  RONDO_DEVICE int64_t end() const { return end_; }  // one past its last block
  RONDO_DEVICE void Next() {
    begin_ = end_;
    ++index_;
    Measure();
  }

 private:
  RONDO_DEVICE void Measure() {
    if (done()) return;
    if (whole_) {
      level_ = 63;
      end_ = run_end_;
      return;
    }
    const int by_alignment = gpu::CountTrailingZeros(static_cast<uint64_t>(begin_));
    const int by_length = gpu::BitWidth(static_cast<uint64_t>(run_end_ - begin_)) - 1;
    level_ = by_alignment < by_length ? by_alignment : by_length;
    end_ = begin_ + (int64_t{1} << level_);
  }

  int64_t begin_, run_end_;
  bool whole_;
  int64_t end_ = 0;
  int level_ = 0;
  int index_ = 0;
};

// Nodes that wait for their right sibling, at most one a level, the highest level oldest. Blocks nobody sees are the
// identity and are left out.
class PendingNodes {
 public:
  RONDO_DEVICE int count() const { return gpu::PopCount(levels_); }

  // Block `block` is done. Calls merge(i) for pending node i, from the last to the first, for each that is its left
  // sibling or an ancestor's. Afterwards the merged node is complete (returns true) or is to be kept as the last pending one.
  // `last`: no further block of the node is visible, so what is to come is the identity.
  template <class Merge>
  RONDO_DEVICE bool Add(int64_t block, int node_level, bool last, Merge merge) {
    int level = 0;
    for (int64_t index = block; level < node_level && (index & 1) != 0; index >>= 1, ++level) {
      if ((levels_ >> level & 1) == 0) continue;
      merge(count() - 1);
      levels_ &= ~(uint64_t{1} << level);
    }
    if (!last) {
      levels_ |= uint64_t{1} << level;
      return false;
    }
    while (levels_ != 0) {
      merge(count() - 1);
      levels_ &= levels_ - 1;
    }
    return true;
  }

 private:
  uint64_t levels_ = 0;
};

}  // namespace rondo::cuda
