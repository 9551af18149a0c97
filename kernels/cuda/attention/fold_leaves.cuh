// The second half of decode: the leaves of a sequence's blocks are folded along the fixed tree into the nodes of the
// run, or into finished rows. One warp a query row and head.
#pragma once

#include "kernels/cuda/attention/decode_args.h"
#include "kernels/cuda/attention/masks.cuh"
#include "kernels/cuda/attention/node_partial.cuh"
#include "kernels/cuda/attention/sequences.cuh"
#include "kernels/cuda/attention/tree_fold.cuh"

namespace rondo::cuda {

inline constexpr int kFoldThreads = 128;

template <int D>
class LeafFold {
 public:
  // Leaves loaded at once and merged in registers: three levels of the tree for one trip to memory.
  static constexpr int kChunk = 8;

  RONDO_DEVICE LeafFold(const DecodeSequence& sequence, int64_t row, int head)
      : leaves_(sequence.leaves), first_block_(sequence.keys.first_block), row_(row), head_(head) {}

  // The node over leaves [begin, end) of the run; leaves of its subtree that are not among them are the identity.
  // Partial results take the place of their first leaf.
  RONDO_DEVICE NodePartial<D> Fold(int begin, int end) {
    const int64_t first = first_block_ + begin;
    const int64_t last = first_block_ + end;
    NodePartial<D> result;
    result.Clear();
    for (int64_t chunk = first / kChunk * kChunk; chunk < last; chunk += kChunk) {
      result = FoldChunk(chunk, first, last);
      Put(Greatest(chunk, first), result);
    }
    // The last merge is the root's.
    for (int64_t span = kChunk; first / span * span + span < last; span *= 2) {
      for (int64_t left = first / (2 * span) * (2 * span); left + span < last; left += 2 * span) {
        if (left + span <= first) continue;  // the left side lies before the run
        NodePartial<D> right;
        Get(Greatest(left, first), &result);
        Get(left + span, &right);
        result.Merge(right);
        Put(Greatest(left, first), result);
      }
    }
    return result;
  }

 private:
  RONDO_DEVICE NodePartial<D> FoldChunk(int64_t chunk, int64_t first, int64_t last) const {
    NodePartial<D> parts[kChunk];
    RONDO_UNROLL
    for (int i = 0; i < kChunk; ++i) {
      parts[i].Clear();
      if (chunk + i >= first && chunk + i < last) Get(chunk + i, &parts[i]);
    }
    RONDO_UNROLL
    for (int span = 1; span < kChunk; span *= 2) {
      RONDO_UNROLL
      for (int i = 0; i < kChunk; i += 2 * span) parts[i].Merge(parts[i + span]);
    }
    return parts[0];
  }

  RONDO_DEVICE void Get(int64_t block, NodePartial<D>* partial) const {
    partial->Load(leaves_, block - first_block_, row_, head_);
  }
  // All lanes have read what one of them overwrites, and will read what it wrote.
  RONDO_DEVICE void Put(int64_t block, const NodePartial<D>& partial) const {
    gpu::WarpSync();
    partial.Store(leaves_, block - first_block_, row_, head_);
    gpu::WarpSync();
  }

  const NodeArgs& leaves_;
  const int64_t first_block_;
  const int64_t row_;
  const int head_;
};

template <class Element, int D, int kBlock>
RONDO_KERNEL(kFoldThreads, 1)
FoldLeaves(RONDO_GRID_CONSTANT const DecodeArgs args) {
  const int64_t warp = int64_t{gpu::CtaIndex()} * (kFoldThreads / 32) + gpu::ThreadIndex() / 32;
  const int64_t row = warp / args.q_heads;
  const int head = static_cast<int>(warp % args.q_heads);
  if (row >= args.rows) return;
  const DecodeSequence& sequence = args.sequences[SequenceOfRow(args, row)];
  const int64_t own_row = row - sequence.first_row;
  const int blocks = static_cast<int>((sequence.keys.tokens + kBlock - 1) / kBlock);
  LeafFold<D> fold(sequence, own_row, head);
  if (sequence.output.out != nullptr) {
    fold.Fold(0, blocks).template Finish<Element>(sequence.output, own_row, head);
    return;
  }
  NodeCursor node(sequence.keys.first_block, blocks, false);
  for (int begin = 0; begin < blocks;) {
    fold.Fold(begin, node.end()).Store(sequence.nodes, node.index(), own_row, head);
    begin = node.end();
    node.Next(sequence.keys.first_block, blocks);
  }
}

}  // namespace rondo::cuda
