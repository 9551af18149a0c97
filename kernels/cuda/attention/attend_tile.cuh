// One tile of rows of one query head through all its keys: the pipeline of copies and products of AttendMma.
#pragma once

#include "kernels/cuda/attention/attend_config.h"
#include "kernels/cuda/attention/row_partials.cuh"
#include "kernels/cuda/attention/scores.cuh"
#include "kernels/cuda/attention/shared_rows.cuh"
#include "kernels/cuda/attention/tree_fold.cuh"
#include "kernels/cuda/attention/values_product.cuh"

namespace rondo::cuda {

template <class C>
class AttendTile {
 public:
  static constexpr int D = C::kHeadDim;
  static constexpr int64_t kBlock = C::kBlockTokensOfTree;
  using Rows = SharedRows<D>;
  // Q stays; K and V of one tile of keys take turns with the products: V arrives while scores are computed, the next K
  // while values are summed. Small enough for two CTAs a multiprocessor, which fill each other's waits.
  static constexpr int kSharedBytes = Rows::Bytes(C::kRows) + 2 * Rows::Bytes(kKeyTile);

  RONDO_DEVICE AttendTile(const AttentionArgs& args, int head, int64_t first_row, int valid_rows)
      : args_(args),
        head_(head),
        first_row_(first_row),
        valid_rows_(valid_rows),
        rule_(args.score, head),
        shared_q_(gpu::SharedMemory()),
        shared_k_(shared_q_ + Rows::Bytes(C::kRows)),
        shared_v_(shared_k_ + Rows::Bytes(kKeyTile)) {
    const int64_t run_begin = args.keys.first_block * kBlock;
    const int64_t first = args.query.first_position + first_row;
    const int64_t last = first + valid_rows - 1;
    first_row_end_ = VisibleEnd(args.mask, first);
    last_row_begin_ = VisibleBegin(args.mask, last);
    keys_begin_ = Greatest(run_begin, VisibleBegin(args.mask, first));
    keys_end_ = Least(run_begin + args.keys.tokens, VisibleEnd(args.mask, last));
  }

  // False: the rows must be done one by one; what was written is to be written again.
  RONDO_DEVICE bool Run() {
    const int64_t run_blocks = (args_.keys.tokens + kBlock - 1) / kBlock;
    const bool finish = args_.output.out != nullptr;
    RowPartials<C> partials(args_, head_, first_row_, valid_rows_);
    int64_t keys = keys_begin_ / kKeyTile * kKeyTile;
    if (keys_begin_ < keys_end_) {
      LoadQueries();
      LoadKeys(keys);
      gpu::CommitCopies();
    }
    bool row_by_row = false;
    NodeCursor node(args_.keys.first_block, args_.keys.first_block + run_blocks, finish);
    for (; !node.done(); node.Next()) {
      PendingNodes pending;
      const int64_t node_end = Least(keys_end_, node.end() * kBlock);
      partials.Clear();
      while (keys < node_end) {
        const int64_t block = keys / kBlock;
        const int64_t block_end = Least(node_end, (block + 1) * kBlock);
        for (; keys < block_end; keys += kKeyTile) row_by_row |= AttendKeys(keys, &partials);
        partials.EndBlock();
        const bool last = keys >= node_end;
        int slot = pending.count();
        for (int merges = last ? pending.AddLast() : pending.Add(block); merges > 0; --merges) {
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
    }
    gpu::CtaSync();  // the next rows overwrite shared memory
    return !row_by_row;
  }

 private:
  RONDO_DEVICE const uint16_t* RowsAt(const void* tensor, int64_t position) const {
    const KeyArgs& keys = args_.keys;
    const int64_t block = position / kBlock - keys.first_block;
    const int64_t block_offset =
        keys.block_offsets != nullptr ? gpu::Load(keys.block_offsets + block) : block * keys.block_stride;
    const int kv_head = head_ / (args_.q_heads / args_.kv_heads);
    return static_cast<const uint16_t*>(tensor) + block_offset + kv_head * keys.head_stride +
           position % kBlock * keys.row_stride;
  }

  RONDO_DEVICE void LoadQueries() {
    const QueryArgs& query = args_.query;
    const auto* rows = static_cast<const uint16_t*>(query.q) + first_row_ * query.row_stride + head_ * query.head_stride;
    Rows::template CopyFrom<C::kRows, C::kThreads>(rows, query.row_stride, 0, valid_rows_, shared_q_);
  }

  // Keys no row of the tile sees are zeros: they may be past the end of the tensor, and their values NaN.
  RONDO_DEVICE void LoadTile(const void* tensor, int64_t tile_begin, gpu::Shared to) {
    const int begin = static_cast<int>(Greatest(keys_begin_ - tile_begin, 0));
    const int end = static_cast<int>(Least(keys_end_ - tile_begin, kKeyTile));
    Rows::template CopyFrom<kKeyTile, C::kThreads>(RowsAt(tensor, tile_begin), args_.keys.row_stride, begin, end, to);
  }
  RONDO_DEVICE void LoadKeys(int64_t tile_begin) { LoadTile(args_.keys.k, tile_begin, shared_k_); }
  RONDO_DEVICE void LoadValues(int64_t tile_begin) { LoadTile(args_.keys.v, tile_begin, shared_v_); }

  // Whether some row of the tile sees only part of these keys.
  RONDO_DEVICE bool IsEdge(int64_t tile_begin) const {
    return tile_begin < last_row_begin_ || tile_begin + kKeyTile > Least(first_row_end_, keys_end_);
  }

  // Position of a row; rows past the last one stand in for it, so that nothing about them is odd.
  RONDO_DEVICE int64_t Position(int row) const {
    return args_.query.first_position + first_row_ + (row < valid_rows_ ? row : valid_rows_ - 1);
  }

  // First row of the warp's 16-row tile i.
  RONDO_DEVICE static int TileRow(int i) { return (gpu::ThreadIndex() / 32 * C::kWarpTiles + i) * 16; }

  RONDO_DEVICE KeyInterval Interval(int row, int64_t tile_begin) const {
    KeyInterval interval = IntervalIn(args_.mask, Position(row), tile_begin, kKeyTile);
    interval.end = static_cast<int>(Least(interval.end, keys_end_ - tile_begin));
    return interval;
  }

  // One tile of keys: its K is on the way, and on return the next one's is. Returns whether the rows must be done one by
  // one.
  RONDO_DEVICE bool AttendKeys(int64_t tile_begin, RowPartials<C>* partials) {
    gpu::WaitCopies<0>();
    gpu::CtaSync();  // K is here, and nobody reads the last V any more
    LoadValues(tile_begin);
    gpu::CommitCopies();

    float s[C::kWarpTiles][kKeyTile / 8][4];
    Scores(&s);
    const bool edge = IsEdge(tile_begin);
    RONDO_UNROLL
    for (int i = 0; i < C::kWarpTiles; ++i) {
      const int row = TileRow(i);
      if (rule_.bent()) {
        const int64_t row_key[2] = {Position(row + LaneRow(0)) - tile_begin, Position(row + LaneRow(1)) - tile_begin};
        BendScores(rule_, row_key, s[i]);
      }
      if (edge) {
        const KeyInterval seen[2] = {Interval(row + LaneRow(0), tile_begin), Interval(row + LaneRow(1), tile_begin)};
        MaskScores(seen, s[i]);
      }
      partials->AddScores(i, rule_.factor(), s[i]);
    }

    gpu::WaitCopies<0>();
    bool row_by_row = false;
    // V is here, and nobody reads this K any more.
    if (edge && valid_rows_ > 1) {
      row_by_row = gpu::CtaSyncOr(ValuesProduct<C>::AnyNotFinite(shared_v_));
    } else {
      gpu::CtaSync();
    }
    if (tile_begin + kKeyTile < keys_end_) LoadKeys(tile_begin + kKeyTile);
    gpu::CommitCopies();
    ValuesProduct<C>::Multiply(s, shared_v_, &partials->o);
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
    RONDO_UNROLL
    for (int step = 0; step < D / 16; ++step) {
      uint32_t q[C::kWarpTiles][4];
      RONDO_UNROLL
      for (int i = 0; i < C::kWarpTiles; ++i) {
        gpu::LoadMatrix4(q[i], Rows::At(shared_q_, TileRow(i) + lane % 16, 2 * step + lane / 16));
      }
      RONDO_UNROLL
      for (int pair = 0; pair < kKeyTile / 16; ++pair) {
        // Matrices: keys 0-7 and 8-15 of the pair, each in both halves of the step.
        uint32_t k[4];
        gpu::LoadMatrix4(k, Rows::At(shared_k_, pair * 16 + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
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
  const int64_t first_row_;
  const int valid_rows_;
  const ScoreRule rule_;
  const gpu::Shared shared_q_, shared_k_, shared_v_;
  int64_t keys_begin_, keys_end_;   // what the rows together see of the run
  int64_t first_row_end_, last_row_begin_;
};

}  // namespace rondo::cuda
