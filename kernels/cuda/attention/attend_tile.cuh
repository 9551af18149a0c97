// One tile of rows of one query head through all its keys: the pipeline of copies and products of AttendMma.
#pragma once

#include "kernels/cuda/attention/attend_config.h"
#include "kernels/cuda/attention/row_partials.cuh"
#include "kernels/cuda/attention/scores.cuh"
#include "kernels/cuda/attention/shared_rows.cuh"
#include "kernels/cuda/attention/tree_fold.cuh"
#include "kernels/cuda/attention/values_check.cuh"
#include "kernels/cuda/attention/values_product.cuh"

namespace rondo::cuda {

template <class C>
class AttendTile {
 public:
  static constexpr int D = C::kHeadDim;
  static constexpr int kBlock = C::kBlockTokensOfTree;
  // Steps of 16 elements of the head dimension: sixteen unrolled keep more addresses than there are registers.
  static constexpr int kStepsUnrolled = D <= 128 ? D / 16 : 1;
  using Rows = SharedRows<D>;
  using ValueRows = SharedRows<C::kValueDim>;
  // Q stays; K and V of one tile of keys take turns with the products: V arrives while scores are computed, the next K
  // while values are summed. Small enough for two CTAs a multiprocessor, which fill each other's waits.
  static constexpr int kSharedBytes = Rows::Bytes(C::kRows) + Rows::Bytes(kKeyTile) + ValueRows::Bytes(kKeyTile);

  RONDO_DEVICE AttendTile(const AttentionArgs& args, int head, int part, int first_row, int valid_rows)
      : args_(args), head_(head), part_(part), first_row_(first_row), valid_rows_(valid_rows) {
    const int64_t first = Position(0);
    const int64_t last = Position(valid_rows - 1);
    keys_begin_ = InThisRun(VisibleBegin(args.mask, first));
    keys_end_ = InThisRun(VisibleEnd(args.mask, last));
    first_row_end_ = InThisRun(VisibleEnd(args.mask, first));
    last_row_begin_ = InThisRun(VisibleBegin(args.mask, last));
  }

  // False: the rows must be done one by one; what was written is to be written again.
  RONDO_DEVICE bool Run() {
    const bool finish = args_.output.out != nullptr;
    const int blocks = static_cast<int>((args_.keys.tokens + kBlock - 1) / kBlock);
    RowPartials<C> partials(args_, head_, part_, first_row_, valid_rows_);
    int keys = keys_begin_ / kKeyTile * kKeyTile;
    if (keys_begin_ < keys_end_) {
      LoadQueries();
      LoadKeys(keys);
      gpu::CommitCopies();
    }
    bool row_by_row = false;
    NodeCursor node(args_.keys.first_block, blocks, finish);
    bool more = finish || blocks > 0;
    while (more) {
      PendingNodes pending;
      const int node_end = keys_end_ < node.end() * kBlock ? keys_end_ : node.end() * kBlock;
      partials.Clear();
      while (keys < node_end) {
        const int block = keys / kBlock;
        const int block_end = node_end < (block + 1) * kBlock ? node_end : (block + 1) * kBlock;
        for (; keys < block_end; keys += kKeyTile) row_by_row |= AttendKeys(keys, &partials);
        partials.EndBlock();
        const bool last = keys >= node_end;
        int slot = pending.count();
        for (int merges = last ? pending.AddLast() : pending.Add(args_.keys.first_block + block); merges > 0;
             --merges) {
          partials.MergePending(--slot);
        }
        if (!last) {
          partials.KeepPending(slot);
          partials.Clear();
        }
      }
      if (finish) {
        partials.Finish();
      } else {
        partials.Store(node.index());
      }
      more = node.end() < blocks;
      node.Next(args_.keys.first_block, blocks);
    }
    gpu::CtaSync();  // the next rows overwrite shared memory
    return !row_by_row;
  }

 private:
  // Keys are counted from the first of the run.
  RONDO_DEVICE int InThisRun(int64_t position) const {
    return InRun(position, args_.keys.first_block * kBlock, args_.keys.tokens);
  }

  RONDO_DEVICE const uint16_t* RowsAt(const void* tensor, int key) const {
    const int kv_head = head_ / (args_.q_heads / args_.kv_heads);
    return static_cast<const uint16_t*>(tensor) + KeyOffset(args_.keys, key, kv_head);
  }

  RONDO_DEVICE void LoadQueries() {
    const QueryArgs& query = args_.query;
    const auto* rows =
        static_cast<const uint16_t*>(query.q) + first_row_ * query.row_stride + head_ * query.head_stride;
    Rows::template CopyFrom<C::kRows, C::kThreads>(rows, query.row_stride, 0, valid_rows_, SharedQ());
  }

  // Keys no row of the tile sees are zeros: they may be past the end of the tensor, and their values NaN.
  RONDO_DEVICE void LoadKeys(int tile_begin) {
    Rows::template CopyFrom<kKeyTile, C::kThreads>(RowsAt(args_.keys.k, tile_begin), args_.keys.row_stride,
                                                   keys_begin_ - tile_begin, keys_end_ - tile_begin, SharedK());
  }
  RONDO_DEVICE void LoadValues(int tile_begin) {
    const uint16_t* columns = RowsAt(args_.keys.v, tile_begin) + part_ * C::kValueDim;
    ValueRows::template CopyFrom<kKeyTile, C::kThreads>(columns, args_.keys.row_stride, keys_begin_ - tile_begin,
                                                        keys_end_ - tile_begin, SharedV());
  }

  RONDO_DEVICE static gpu::Shared SharedQ() { return gpu::SharedMemory(); }
  RONDO_DEVICE static gpu::Shared SharedK() { return SharedQ() + Rows::Bytes(C::kRows); }
  RONDO_DEVICE static gpu::Shared SharedV() { return SharedK() + Rows::Bytes(kKeyTile); }

  // Whether some row of the tile sees only part of these keys.
  RONDO_DEVICE bool IsEdge(int tile_begin) const {
    return tile_begin < last_row_begin_ || tile_begin + kKeyTile > first_row_end_;
  }

  // Whether the tile has keys that some row sees and another does not.
  RONDO_DEVICE bool IsMixed(int tile_begin) const {
    return (last_row_begin_ > keys_begin_ && tile_begin < last_row_begin_) ||
           (first_row_end_ < keys_end_ && tile_begin + kKeyTile > first_row_end_);
  }

  // Position of a row; rows past the last one stand in for it, so that nothing about them is odd.
  RONDO_DEVICE int64_t Position(int row) const {
    return args_.query.first_position + first_row_ + (row < valid_rows_ ? row : valid_rows_ - 1);
  }

  // First row of the warp's 16-row tile i.
  RONDO_DEVICE static int TileRow(int i) { return (gpu::ThreadIndex() / 32 * C::kWarpTiles + i) * 16; }

  RONDO_DEVICE KeyInterval Interval(int row, int tile_begin) const {
    const int64_t position = Position(row);
    return {InThisRun(VisibleBegin(args_.mask, position)) - tile_begin,
            InThisRun(VisibleEnd(args_.mask, position)) - tile_begin};
  }

  // A row's own position, counted from the tile's first key. Distances that matter to ALiBi are below 2^31.
  RONDO_DEVICE int OwnKey(int row, int tile_begin) const {
    return static_cast<int>(Position(row) - args_.keys.first_block * kBlock) - tile_begin;
  }

  // One tile of keys: its K is on the way, and on return the next one's is. Returns whether the rows must be done one
  // by one.
  RONDO_DEVICE bool AttendKeys(int tile_begin, RowPartials<C>* partials) {
    gpu::WaitCopies<0>();
    gpu::CtaSync();  // K is here, and nobody reads the last V any more
    LoadValues(tile_begin);
    gpu::CommitCopies();

    float s[C::kWarpTiles][kKeyTile / 8][4];
    Scores(&s);
    const bool edge = IsEdge(tile_begin);
    RONDO_UNROLL
    for (int i = 0; i < C::kWarpTiles; ++i) {
      const int row[2] = {TileRow(i) + LaneRow(0), TileRow(i) + LaneRow(1)};
      if (IsBent(args_.score)) {
        const float slope = SlopeOf(args_.score, head_);
        BendScores(args_.score, {slope, slope}, {OwnKey(row[0], tile_begin), OwnKey(row[1], tile_begin)}, s[i]);
      }
      if (edge) MaskScores({Interval(row[0], tile_begin), Interval(row[1], tile_begin)}, s[i]);
      partials->AddScores(i, ScoreFactor(args_.score), s[i]);
    }

    gpu::WaitCopies<0>();
    bool row_by_row = false;
    // V is here, and nobody reads this K any more.
    if (IsMixed(tile_begin)) {
      row_by_row = gpu::CtaSyncOr(AnyNotFinite<typename C::Element, C::kValueDim, C::kThreads>(SharedV()));
    } else {
      gpu::CtaSync();
    }
    if (tile_begin + kKeyTile < keys_end_) LoadKeys(tile_begin + kKeyTile);
    gpu::CommitCopies();
    ValuesProduct<C>::Multiply(s, SharedV(), &partials->o);
    return row_by_row;
  }

  // s = Q K^T, summed over the head dimension in steps of 16.
  RONDO_DEVICE void Scores(float (*s)[C::kWarpTiles][kKeyTile / 8][4]) {
    RONDO_UNROLL
    for (int i = 0; i < C::kWarpTiles; ++i) {
      RONDO_UNROLL
      for (int tile = 0; tile < kKeyTile / 8; ++tile) {
        RONDO_UNROLL
        for (int j = 0; j < 4; ++j) (*s)[i][tile][j] = 0;
      }
    }
    const int lane = gpu::LaneIndex();
    RONDO_UNROLL_BY(kStepsUnrolled)
    for (int step = 0; step < D / 16; ++step) {
      uint32_t q[C::kWarpTiles][4];
      RONDO_UNROLL
      for (int i = 0; i < C::kWarpTiles; ++i) {
        gpu::LoadMatrix4(q[i], Rows::At(SharedQ(), TileRow(i) + lane % 16, 2 * step + lane / 16));
      }
      RONDO_UNROLL
      for (int pair = 0; pair < kKeyTile / 16; ++pair) {
        // Matrices: keys 0-7 and 8-15 of the pair, each in both halves of the step.
        uint32_t k[4];
        gpu::LoadMatrix4(k, Rows::At(SharedK(), pair * 16 + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
        RONDO_UNROLL
        for (int i = 0; i < C::kWarpTiles; ++i) {
          gpu::MultiplyAdd<typename C::Element>((*s)[i][2 * pair], q[i], k[0], k[1]);
          gpu::MultiplyAdd<typename C::Element>((*s)[i][2 * pair + 1], q[i], k[2], k[3]);
        }
      }
    }
  }

  const AttentionArgs& args_;
  const int head_;
  const int part_;  // of the values' columns
  const int first_row_;
  const int valid_rows_;
  int keys_begin_, keys_end_;  // what the rows together see of the run
  int first_row_end_, last_row_begin_;
};

}  // namespace rondo::cuda
