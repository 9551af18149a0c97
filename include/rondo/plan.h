// The shard plan: which rank computes and which keeps which positions. A pure function of (tokens, world, prefill
// chunk), the same on every rank; used by the worker's step loop and the ring.
#pragma once

#include <cstdint>
#include <vector>

#include "rondo/attention.h"
#include "rondo/canonical.h"

namespace rondo {

class ShardPlan {
 public:
  // The prompt of `tokens` (>= 0) tokens over `world` (>= 1) ranks. Prefill advances in chunks of `prefill_chunk`
  // tokens (0: the whole prompt at once). The prompt is cut into segments of whole canonical blocks, at least one chunk
  // long; inside a segment 2 * world pieces are dealt zigzag (rank r gets pieces r and 2 * world - 1 - r), with rank
  // order rotated by the segment's number so that short segments spread. Piece lengths differ by at most one block. Who
  // computes a block also keeps it if there are several chunks. If there is one, each rank keeps one contiguous run
  // instead: keys and values come past every rank anyway, and long aligned runs are few nodes of a decode step.
  // A leaf of the tree (canonical.h) is never divided: with leaf_level L everything above happens in units of 2^L
  // blocks.
  static ShardPlan Zigzag(int64_t tokens, int world, int64_t prefill_chunk, int leaf_level = 0);

  int64_t tokens() const { return tokens_; }
  int world() const { return world_; }
  int leaf_level() const { return leaf_level_; }

  // The rank that keeps a block; also for blocks past the prompt, which go round the ranks four at a time, or a leaf if
  // that is more.
  int Owner(int64_t block) const;
  // The rank that computes the prompt's rows of a block.
  int Computer(int64_t block) const { return computers_[block]; }

  // Prefill chunks: chunk c covers positions [c * chunk, min((c + 1) * chunk, tokens)).
  int64_t chunk_count() const;
  PositionRun Chunk(int64_t chunk) const;

  // The rows of one chunk that `rank` computes, ascending and maximal.
  std::vector<PositionRun> Rows(int64_t chunk, int rank) const;

  // Maximal runs of blocks of [0, BlocksFor(sequence_tokens)) that `rank` keeps, ascending.
  std::vector<BlockRange> OwnedBlocks(int64_t sequence_tokens, int rank) const;
  int64_t OwnedBlockCount(int64_t sequence_tokens, int rank) const;
  // The prompt's blocks that `rank` computes, in the same form.
  std::vector<BlockRange> ComputedBlocks(int rank) const;

 private:
  int64_t tokens_ = 0;
  int64_t chunk_ = 0;
  int leaf_level_ = 0;
  int world_ = 1;
  std::vector<int> computers_;  // by block of the prompt
  std::vector<int> owners_;     // the same; like computers_ it covers whole leaves
};

}  // namespace rondo
