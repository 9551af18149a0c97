// The walk over the fixed binary tree of canonical blocks: which finished block is merged with which pending node, and
// when a node of the run is complete. Index arithmetic only; include/rondo/canonical.h has the definition. Used by the
// attention kernels; all threads of a CTA walk alike.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace rondo::cuda {

// The complete subtrees that tile a run of blocks, one after the other: DyadicNodes of canonical.h. With `whole`, one
// node above them all, for finished rows, also where the run is empty. Blocks are counted from the run's first.
class NodeCursor {
 public:
  RONDO_DEVICE NodeCursor(int64_t first_block, int blocks, bool whole) { Measure(first_block, blocks, whole); }
  RONDO_DEVICE int index() const { return index_; }
  RONDO_DEVICE int end() const { return end_; }  // one past the node's last block
  RONDO_DEVICE void Next(int64_t first_block, int blocks) {
    ++index_;
    Measure(first_block, blocks, false);
  }

 private:
  RONDO_DEVICE void Measure(int64_t first_block, int blocks, bool whole) {
    const int left = blocks - end_;
    if (whole || left <= 0) {
      end_ = blocks;
      return;
    }
    const int by_alignment = gpu::CountTrailingZeros(static_cast<uint64_t>(first_block + end_));
    const int by_length = gpu::BitWidth(static_cast<uint64_t>(left)) - 1;
    end_ += 1 << (by_alignment < by_length ? by_alignment : by_length);
  }

  int end_ = 0;
  int index_ = 0;
};

// Nodes that wait for their right sibling, at most one a level; the last one is of the lowest level. Blocks nobody sees
// are the identity and are left out.
class PendingNodes {
 public:
  RONDO_DEVICE int count() const { return gpu::PopCount(levels_); }

  // Block `block`, not the node's last visible one, is done. Returns how many pending nodes, the last first, are its
  // left sibling or an ancestor's: merge those with it, and keep the result as the last pending node.
  RONDO_DEVICE int Add(int64_t block) {
    const int level = gpu::CountTrailingZeros(~static_cast<uint64_t>(block));  // up to here the block ends a subtree
    const uint32_t below = (uint32_t{1} << level) - 1;
    const int merges = gpu::PopCount(levels_ & below);
    levels_ = (levels_ & ~below) | uint32_t{1} << level;
    return merges;
  }

  // The node's last visible block is done: what is to come is the identity, and all that is pending merges.
  RONDO_DEVICE int AddLast() {
    const int merges = count();
    levels_ = 0;
    return merges;
  }

 private:
  uint32_t levels_ = 0;  // blocks are fewer than 2^31
};

}  // namespace rondo::cuda
