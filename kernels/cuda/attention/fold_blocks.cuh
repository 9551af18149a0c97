// A tile of rows through the canonical blocks it sees: each from the empty state, each folded into the fixed tree, and
// what is complete sent to memory. Used by the prefill kernels, which bring the way a block is attended.
#pragma once

#include "kernels/cuda/attention/args.h"
#include "kernels/cuda/attention/tree_fold.cuh"

namespace rondo::cuda {

// `attend(begin, end)` takes the keys [begin, end) of one block, in tiles of kTile from `begin` on, and leaves their
// sums in `partials`, which it finds cleared. [keys_begin, keys_end): what the rows see of the run.
template <int kBlock, int kTile, class Partials, class Attend>
RONDO_DEVICE void FoldBlocks(const AttentionArgs& args, int keys_begin, int keys_end, Partials* partials,
                             Attend attend) {
  static_assert(kBlock % kTile == 0);
  const bool finish = args.output.out != nullptr;
  const int blocks = static_cast<int>((args.keys.tokens + kBlock - 1) / kBlock);
  int keys = keys_begin < keys_end ? keys_begin / kTile * kTile : keys_end;
  NodeCursor node(args.keys.first_block, blocks, finish);
  bool more = finish || blocks > 0;
  while (more) {
    PendingNodes pending;
    const int node_end = keys_end < node.end() * kBlock ? keys_end : node.end() * kBlock;
    partials->Clear();
    while (keys < node_end) {
      const int block = keys / kBlock;
      const int block_end = (block + 1) * kBlock;
      attend(keys, node_end < block_end ? node_end : block_end);
      keys = block_end;
      partials->EndBlock();
      const bool last = keys >= node_end;
      const int slots = pending.count();
      const int merges = last ? pending.AddLast() : pending.Add(args.keys.first_block + block);
      partials->Fold(slots, merges, last);
      if (!last) partials->Clear();
    }
    if (finish) {
      partials->Finish();
    } else {
      partials->Store(node.index());
    }
    more = node.end() < blocks;
    node.Next(args.keys.first_block, blocks);
  }
}

}  // namespace rondo::cuda
