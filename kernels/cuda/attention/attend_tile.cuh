// One tile of rows of one query head through all its keys: the pipeline of copies and products of AttendMma.
#pragma once

#include "kernels/cuda/attention/attend_config.h"
#include "kernels/cuda/attention/fold_blocks.cuh"
#include "kernels/cuda/attention/row_partials.cuh"
#include "kernels/cuda/attention/row_span.cuh"
#include "kernels/cuda/attention/scores.cuh"
#include "kernels/cuda/attention/shared_rows.cuh"
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
  using Partials = RowPartials<C, RowPlace>;
  using ValueRows = SharedRows<C::kValueDim>;
  // Q stays; K and V of one tile of keys take turns with the products: V arrives while scores are computed, the next K
  // while values are summed. Small enough for two CTAs a multiprocessor, which fill each other's waits.
  static constexpr int kSharedBytes = Rows::Bytes(C::kRows) + Rows::Bytes(kKeyTile) + ValueRows::Bytes(kKeyTile);

  RONDO_DEVICE AttendTile(const AttentionArgs& args, const RowPlace& place)
      : args_(args), place_(place), rows_(args, place), edges_(rows_, 0, place.valid_rows() - 1) {}

  // False: the rows must be done one by one; what was written is to be written again.
  RONDO_DEVICE bool Run() {
    Partials partials(args_, place_);
    if (rows_.keys_begin < rows_.keys_end) {
      LoadQueries();
      LoadKeys(rows_.keys_begin / kKeyTile * kKeyTile);
      gpu::CommitCopies();
    }
    bool row_by_row = false;
    FoldBlocks<kBlock, kKeyTile>(args_, rows_.keys_begin, rows_.keys_end, &partials, [&](int begin, int end) {
      for (int keys = begin; keys < end; keys += kKeyTile) row_by_row |= AttendKeys(keys, &partials);
    });
    gpu::CtaSync();  // the next rows overwrite shared memory
    return !row_by_row;
  }

 private:
  RONDO_DEVICE const uint16_t* RowsAt(const void* tensor, int key) const {
    const int kv_head = place_.head() / (args_.q_heads / args_.kv_heads);
    return static_cast<const uint16_t*>(tensor) + KeyOffset(args_.keys, key, kv_head);
  }

  RONDO_DEVICE void LoadQueries() {
    const QueryArgs& query = args_.query;
    const auto* rows = static_cast<const uint16_t*>(query.q) + place_.first_row() * query.row_stride +
                       place_.head() * query.head_stride;
    Rows::template CopyFrom<C::kRows, C::kThreads>(rows, query.row_stride, 0, place_.valid_rows(), SharedQ());
  }

  // Keys no row of the tile sees are zeros: they may be past the end of the tensor, and their values NaN.
  RONDO_DEVICE void LoadKeys(int tile_begin) {
    Rows::template CopyFrom<kKeyTile, C::kThreads>(RowsAt(args_.keys.k, tile_begin), args_.keys.row_stride,
                                                   rows_.keys_begin - tile_begin, rows_.keys_end - tile_begin,
                                                   SharedK());
  }
  RONDO_DEVICE void LoadValues(int tile_begin) {
    const uint16_t* columns = RowsAt(args_.keys.v, tile_begin) + place_.part() * C::kValueDim;
    ValueRows::template CopyFrom<kKeyTile, C::kThreads>(columns, args_.keys.row_stride, rows_.keys_begin - tile_begin,
                                                        rows_.keys_end - tile_begin, SharedV());
  }

  RONDO_DEVICE static gpu::Shared SharedQ() { return gpu::SharedMemory(); }
  RONDO_DEVICE static gpu::Shared SharedK() { return SharedQ() + Rows::Bytes(C::kRows); }
  RONDO_DEVICE static gpu::Shared SharedV() { return SharedK() + Rows::Bytes(kKeyTile); }

  // First row of the warp's 16-row tile i.
  RONDO_DEVICE static int TileRow(int i) { return (gpu::ThreadIndex() / 32 * C::kWarpTiles + i) * 16; }

  // One tile of keys: its K is on the way, and on return the next one's is. Returns whether the rows must be done one
  // by one.
  RONDO_DEVICE bool AttendKeys(int tile_begin, Partials* partials) {
    gpu::WaitCopies<0>();
    gpu::CtaSync();  // K is here, and nobody reads the last V any more
    LoadValues(tile_begin);
    gpu::CommitCopies();

    float s[C::kWarpTiles][kKeyTile / 8][4];
    Scores(&s);
    const bool edge = edges_.Cut(tile_begin, tile_begin + kKeyTile);
    RONDO_UNROLL
    for (int i = 0; i < C::kWarpTiles; ++i) {
      const int row[2] = {TileRow(i) + LaneRow(0), TileRow(i) + LaneRow(1)};
      if (IsBent(args_.score)) {
        const float slope = SlopeOf(args_.score, place_.head());
        BendScores(args_.score, {slope, slope}, {rows_.OwnKey(row[0], tile_begin), rows_.OwnKey(row[1], tile_begin)},
                   s[i]);
      }
      if (edge) MaskScores({rows_.Interval(row[0], tile_begin), rows_.Interval(row[1], tile_begin)}, s[i]);
      float rescale[2];
      partials->AddScores(i, ScoreFactor(args_.score), s[i], rescale);
      partials->Rescale(i, rescale);
    }

    gpu::WaitCopies<0>();
    bool row_by_row = false;
    // V is here, and nobody reads this K any more.
    if (edges_.Mixed(tile_begin, tile_begin + kKeyTile, rows_.keys_begin, rows_.keys_end)) {
      row_by_row = gpu::CtaSyncOr(AnyNotFinite<typename C::Element, C::kValueDim, C::kThreads>(SharedV()));
    } else {
      gpu::CtaSync();
    }
    if (tile_begin + kKeyTile < rows_.keys_end) LoadKeys(tile_begin + kKeyTile);
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
  const RowPlace place_;
  const RowSpan<kBlock, RowPlace> rows_;
  const SpanEdges edges_;
};

}  // namespace rondo::cuda
