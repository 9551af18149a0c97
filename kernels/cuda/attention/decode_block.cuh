// Up to 16 rows of one KV head over the keys of one canonical block: the work of one CTA of DecodeMma.
#pragma once

#include "kernels/cuda/attention/decode_args.h"
#include "kernels/cuda/attention/decode_config.h"
#include "kernels/cuda/attention/output.cuh"
#include "kernels/cuda/attention/scores.cuh"
#include "kernels/cuda/attention/shared_rows.cuh"
#include "kernels/cuda/attention/values_check.cuh"

namespace rondo::cuda {

template <class C>
class DecodeBlock {
 public:
  static constexpr int D = C::kHeadDim;
  static constexpr int kBlock = C::kBlockTokensOfTree;
  static constexpr int kPairs = (D / 16 + C::kWarps - 1) / C::kWarps;  // pairs of 8-column tiles a warp sums
  using Rows = SharedRows<D>;
  using Element = typename C::Element;
  using ProbabilityRows = SharedRows<kKeyTile>;
  static constexpr int kStageBytes = 2 * Rows::Bytes(kKeyTile);
  static constexpr int kMaximaBytes = C::kWarps * kDecodeRows * 4;
  static constexpr int kSumsBytes = C::kWarps * 2 * 32 * 4;
  static constexpr int kSharedBytes = Rows::Bytes(kDecodeRows) + C::kStages * kStageBytes +
                                      ProbabilityRows::Bytes(kDecodeRows) + kMaximaBytes + kSumsBytes;

  RONDO_DEVICE DecodeBlock(const DecodeArgs& args, const DecodeSequence& sequence, int block, int kv_head,
                           int first_row, int valid_rows)
      : args_(args),
        sequence_(sequence),
        keys_(sequence.keys),
        group_(args.q_heads / args.kv_heads),
        block_(block),
        kv_head_(kv_head),
        first_row_(first_row),
        valid_rows_(valid_rows) {
    const int64_t tokens = keys_.tokens - int64_t{block} * kBlock;
    block_tokens_ = static_cast<int>(Least(tokens, kBlock));
    const KeyInterval first = Interval(0);
    const KeyInterval last = Interval(valid_rows - 1);
    keys_begin_ = first.begin;
    keys_end_ = last.end;
    first_row_end_ = first.end;
    last_row_begin_ = last.begin;
    RONDO_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = LaneRow(half);
      seen_[half] = Interval(row);
      own_key_[half] = static_cast<int>(Position(row) - BlockBegin());
      slope_[half] = SlopeOf(args.score, RowAt(row).head);
    }
  }

  // False: the rows must be done one by one; what was written is to be written again.
  RONDO_DEVICE bool Run() {
    running_.Clear();
    RONDO_UNROLL
    for (int i = 0; i < kPairs * 2; ++i) {
      RONDO_UNROLL
      for (int j = 0; j < 4; ++j) o_[i][j] = 0;
    }
    bool row_by_row = false;
    if (keys_begin_ < keys_end_) {
      const int begin = keys_begin_ / kKeyTile * kKeyTile;
      LoadQueries();
      RONDO_UNROLL
      for (int i = 0; i < C::kStages - 1; ++i)
        LoadStage(begin + i * kKeyTile, i);  // the first group has the queries too
      int stage = 0;
      for (int keys = begin; keys < keys_end_; keys += kKeyTile) {
        row_by_row |= AttendKeys(keys, stage);
        stage = stage + 1 < C::kStages ? stage + 1 : 0;
      }
      gpu::WaitCopies<0>();
      RONDO_UNROLL
      for (int half = 0; half < 2; ++half) running_.l[half] = QuadSum(running_.l[half]);
    }
    Store();
    gpu::CtaSync();  // the next rows overwrite shared memory
    return !row_by_row;
  }

 private:
  // A row is a query row and one of the heads of the group; those past the last one stand in for it.
  struct Row {
    int token, head;
  };
  RONDO_DEVICE Row RowAt(int row) const {
    const int packed = first_row_ + (row < valid_rows_ ? row : valid_rows_ - 1);
    return {packed / group_, kv_head_ * group_ + packed % group_};
  }
  RONDO_DEVICE int64_t Position(int row) const { return sequence_.query.first_position + RowAt(row).token; }
  RONDO_DEVICE int64_t BlockBegin() const { return (keys_.first_block + block_) * kBlock; }
  RONDO_DEVICE MaskArgs Mask() const {
    return {args_.causal, args_.window, sequence_.visible_begin, sequence_.visible_end};
  }
  // What a row sees of the block, counted from its first key.
  RONDO_DEVICE KeyInterval Interval(int row) const {
    const int64_t position = Position(row);
    return {InRun(VisibleBegin(Mask(), position), BlockBegin(), block_tokens_),
            InRun(VisibleEnd(Mask(), position), BlockBegin(), block_tokens_)};
  }

  RONDO_DEVICE static int Warp() { return gpu::ThreadIndex() / 32; }
  RONDO_DEVICE static gpu::Shared SharedQ() { return gpu::SharedMemory(); }
  RONDO_DEVICE static gpu::Shared SharedK(int stage) {
    return SharedQ() + Rows::Bytes(kDecodeRows) + stage * kStageBytes;
  }
  RONDO_DEVICE static gpu::Shared SharedV(int stage) { return SharedK(stage) + Rows::Bytes(kKeyTile); }
  RONDO_DEVICE static gpu::Shared SharedP() { return SharedK(C::kStages); }
  RONDO_DEVICE static gpu::Shared SharedMaximum(int warp, int row) {
    return SharedP() + ProbabilityRows::Bytes(kDecodeRows) + (warp * kDecodeRows + row) * 4;
  }
  RONDO_DEVICE static gpu::Shared SharedSum(int warp, int half) {
    return SharedMaximum(C::kWarps, 0) + ((warp * 2 + half) * 32 + gpu::LaneIndex()) * 4;
  }

  RONDO_DEVICE void LoadQueries() {
    const QueryArgs& query = sequence_.query;
    for (int i = gpu::ThreadIndex(); i < kDecodeRows * Rows::kChunks; i += C::kThreads) {
      const int row = i / Rows::kChunks;
      const int chunk = i % Rows::kChunks;
      const Row at = RowAt(row);
      const uint16_t* from = static_cast<const uint16_t*>(query.q) + at.token * query.row_stride +
                             at.head * query.head_stride + chunk * kChunkElements;
      gpu::CopyAsync16(Rows::At(SharedQ(), row, chunk), from, row < valid_rows_);
    }
  }

  // Starts the copies of K and V of a tile, if there is one, and ends their group. Keys no row sees become zeros.
  RONDO_DEVICE void LoadStage(int tile_begin, int stage) {
    if (tile_begin < keys_end_) {
      const int64_t offset = KeyOffset(keys_, block_ * kBlock + tile_begin, kv_head_);
      const int begin = keys_begin_ - tile_begin;
      const int end = keys_end_ - tile_begin;
      Rows::template CopyFrom<kKeyTile, C::kThreads>(static_cast<const uint16_t*>(keys_.k) + offset, keys_.row_stride,
                                                     begin, end, SharedK(stage));
      Rows::template CopyFrom<kKeyTile, C::kThreads>(static_cast<const uint16_t*>(keys_.v) + offset, keys_.row_stride,
                                                     begin, end, SharedV(stage));
    }
    gpu::CommitCopies();
  }

  // One tile of keys, in its stage. Returns whether the rows must be done one by one.
  RONDO_DEVICE bool AttendKeys(int tile_begin, int stage) {
    gpu::WaitCopies<C::kStages - 2>();
    bool row_by_row = false;
    // The tile is here, and nobody reads the stage before it any more.
    const bool mixed = (last_row_begin_ > keys_begin_ && tile_begin < last_row_begin_) ||
                       (first_row_end_ < keys_end_ && tile_begin + kKeyTile > first_row_end_);
    if (mixed) {
      row_by_row = gpu::CtaSyncOr(AnyNotFinite<Element, D, C::kThreads>(SharedV(stage)));
    } else {
      gpu::CtaSync();
    }
    LoadStage(tile_begin + (C::kStages - 1) * kKeyTile, stage > 0 ? stage - 1 : C::kStages - 1);

    float s[2][4];
    Scores(stage, &s);
    // From here on keys are counted from the warp's first.
    const int warp_begin = tile_begin + Warp() * 16;
    if (IsBent(args_.score)) {
      BendScores(args_.score, {slope_[0], slope_[1]}, {own_key_[0] - warp_begin, own_key_[1] - warp_begin}, s);
    }
    MaskScores({{seen_[0].begin - warp_begin, seen_[0].end - warp_begin},
                {seen_[1].begin - warp_begin, seen_[1].end - warp_begin}},
               s);
    Probabilities(s);
    Sums(stage);
    return row_by_row;
  }

  // s = Q K^T of the warp's 16 keys, with soft cap and ALiBi.
  RONDO_DEVICE void Scores(int stage, float (*s)[2][4]) {
    RONDO_UNROLL
    for (int j = 0; j < 8; ++j) (*s)[j / 4][j % 4] = 0;
    const int lane = gpu::LaneIndex();
    RONDO_UNROLL
    for (int step = 0; step < D / 16; ++step) {
      uint32_t q[4], k[4];
      gpu::LoadMatrix4(q, Rows::At(SharedQ(), lane % 16, 2 * step + lane / 16));
      gpu::LoadMatrix4(k, Rows::At(SharedK(stage), Warp() * 16 + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
      gpu::MultiplyAdd<Element>((*s)[0], q, k[0], k[1]);
      gpu::MultiplyAdd<Element>((*s)[1], q, k[2], k[3]);
    }
  }

  // The warps agree on the rows' maxima, and share probabilities and sums.
  RONDO_DEVICE void Probabilities(float (&s)[2][4]) {
    const float factor = ScoreFactor(args_.score);
    RONDO_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float largest = QuadMax(LargestScore(s, half));
      if (gpu::LaneIndex() % 4 == 0) gpu::StoreShared(SharedMaximum(Warp(), LaneRow(half)), largest);
    }
    gpu::CtaSync();
    RONDO_UNROLL
    for (int half = 0; half < 2; ++half) {
      float largest = MinusInfinity();
      RONDO_UNROLL
      for (int warp = 0; warp < C::kWarps; ++warp) {
        largest = gpu::Max(largest, gpu::LoadShared<float>(SharedMaximum(warp, LaneRow(half))));
      }
      const float m = RaisedMax(running_.m[half], largest, factor);
      rescale_[half] = PowerOfTwo(running_.m[half] - m);
      running_.m[half] = m;
      gpu::StoreShared(SharedSum(Warp(), half), Exponentials(s, 0, half, factor, m));
      RONDO_UNROLL
      for (int tile = 0; tile < 2; ++tile) {
        gpu::StoreShared(ProbabilityRows::At(SharedP(), LaneRow(half), Warp() * 2 + tile) + gpu::LaneIndex() % 4 * 4,
                         gpu::Pack<Element>(s[tile][2 * half], s[tile][2 * half + 1]));
      }
    }
    gpu::CtaSync();
  }

  // l and the warp's columns of o take in the tile.
  RONDO_DEVICE void Sums(int stage) {
    RONDO_UNROLL
    for (int half = 0; half < 2; ++half) {
      float groups[4];
      RONDO_UNROLL
      for (int warp = 0; warp < C::kWarps; ++warp) groups[warp] = gpu::LoadShared<float>(SharedSum(warp, half));
      running_.l[half] = RaisedSum(running_.l[half], rescale_[half], groups);
    }
    RONDO_UNROLL
    for (int i = 0; i < kPairs * 2; ++i) {
      RONDO_UNROLL
      for (int j = 0; j < 4; ++j) o_[i][j] *= rescale_[j / 2];
    }
    const int lane = gpu::LaneIndex();
    RONDO_UNROLL
    for (int step = 0; step < kKeyTile / 16; ++step) {
      uint32_t p[4];
      gpu::LoadMatrix4(p, ProbabilityRows::At(SharedP(), lane % 16, 2 * step + lane / 16));
      RONDO_UNROLL
      for (int i = 0; i < kPairs; ++i) {
        const int pair = i * C::kWarps + Warp();
        if (D / 16 % C::kWarps != 0 && pair >= D / 16) break;
        uint32_t v[4];
        gpu::LoadMatrix4Transposed(v, Rows::At(SharedV(stage), step * 16 + lane % 16, 2 * pair + lane / 16));
        gpu::MultiplyAdd<Element>(o_[2 * i], p, v[0], v[1]);
        gpu::MultiplyAdd<Element>(o_[2 * i + 1], p, v[2], v[3]);
      }
    }
  }

  RONDO_DEVICE void Store() {
    RONDO_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (LaneRow(half) >= valid_rows_) continue;
      const Row row = RowAt(LaneRow(half));
      const NodeWriter leaf(sequence_.leaves, block_, row.token, row.head);
      if (Warp() == 0 && gpu::LaneIndex() % 4 == 0) leaf.StoreState(running_.m[half], running_.l[half]);
      RONDO_UNROLL
      for (int i = 0; i < kPairs; ++i) {
        const int pair = i * C::kWarps + Warp();
        if (D / 16 % C::kWarps != 0 && pair >= D / 16) break;
        RONDO_UNROLL
        for (int tile = 0; tile < 2; ++tile) {
          leaf.StoreSums(LaneColumn(2 * pair + tile, 0), o_[2 * i + tile][2 * half], o_[2 * i + tile][2 * half + 1]);
        }
      }
    }
  }

  const DecodeArgs& args_;
  const DecodeSequence& sequence_;
  // Copied, as what follows from the lane's two rows is kept: the loop over tiles would read and divide anew each time.
  const KeyArgs keys_;
  const int group_, block_, kv_head_, first_row_, valid_rows_;
  int block_tokens_;
  int keys_begin_, keys_end_;  // what the rows together see of the block
  int first_row_end_, last_row_begin_;
  KeyInterval seen_[2];
  int own_key_[2];
  float slope_[2];
  RunningRows running_;
  float rescale_[2];
  float o_[kPairs * 2][4];
};

}  // namespace rondo::cuda
