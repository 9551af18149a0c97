// Merges partials that arrive in ascending order of blocks into one node of the fixed tree, like a binary counter;
// used by every attention kernel inside one node.
#pragma once

#include <array>

#include "rondo/canonical.h"

namespace rondo::attention {

// The partials themselves live in numbered slots of the owner. Blocks in which nothing is visible are simply not
// pushed: they are the identity.
class TreeStack {
 public:
  int depth() const { return depth_; }
  int top() const { return depth_; }  // the slot the next partial goes to
  void Clear() { depth_ = 0; }

  // Slot top() now holds the partial of `node`. merge(slot) joins slot + 1 into slot.
  template <typename Merge>
  void Push(NodeId node, Merge&& merge) {
    ++depth_;
    // A right child completes its parent, whether or not its left sibling saw anything.
    while (node.index & 1) {
      if (depth_ >= 2 && nodes_[depth_ - 2] == node.sibling()) {
        merge(depth_ - 2);
        --depth_;
      }
      node = node.parent();
    }
    nodes_[depth_ - 1] = node;
  }

  // No more is coming: the siblings still awaited are identities. Slot 0 holds the result if depth() was not 0.
  template <typename Merge>
  void Collapse(Merge&& merge) {
    for (; depth_ > 1; --depth_) merge(depth_ - 2);
  }

  // Slots a subtree of `blocks` blocks can need at once.
  static int Slots(int64_t blocks) { return std::bit_width(static_cast<uint64_t>(blocks)) + 1; }

 private:
  int depth_ = 0;
  std::array<NodeId, 66> nodes_;
};

}  // namespace rondo::attention
