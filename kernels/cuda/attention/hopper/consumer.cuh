// A math warpgroup of the sm_90a kernel: 64 rows of each item through the tiles of keys that the producer brings.
#pragma once

#include "kernels/cuda/attention/fold_blocks.cuh"
#include "kernels/cuda/attention/hopper/memory_partials.cuh"
#include "kernels/cuda/attention/hopper/products.cuh"
#include "kernels/cuda/attention/hopper/work_list.cuh"
#include "kernels/cuda/attention/row_span.cuh"
#include "kernels/cuda/attention/values_check.cuh"

namespace rondo::cuda {

template <class C>
class Consumer {
 public:
  static constexpr int kBlock = C::kBlockTokensOfTree;
  using S = Stages<C>;
  using P = Products<C>;
  using Span = RowSpan<kBlock, SharedPlace>;
  using Partials = MemoryPartials<C, SharedPlace>;

  RONDO_DEVICE explicit Consumer(const AttentionArgs& args)
      : args_(args), group_(gpu::WarpUniform(gpu::ThreadIndex() / C::kGroupThreads)) {}

  RONDO_DEVICE void Run() {
    if (C::kTurns && group_ == 1) PassTurn();  // group 0 begins
    for (uint32_t n = 0;; ++n) {
      const RingPlace<C::kItemSlots> at(n);
      gpu::MbarrierWait(S::ItemFull(at.stage), at.filled);
      const SharedPlace place(S::Item(at.stage));
      if (place.valid_rows() == 0) break;
      Notes<C>::Write(args_, place.number(), Attend(place));
      Release(S::ItemEmpty(at.stage));
    }
    if (C::kTurns && group_ == 0) TakeTurn();  // nobody has arrived for nothing
  }

 private:
  using Scores = float[C::kTileKeys / 8][4];
  using Probabilities = uint32_t[C::kTileKeys / 16][4];

  struct Item {
    SharedPlace place;
    Span rows;
    SpanEdges edges;  // of this group's rows
    bool spoilt = false;
    RONDO_DEVICE Item(const AttentionArgs& args, const SharedPlace& where, int group)
        : place(where), rows(args, where), edges(rows, group * C::kGroupRows, (group + 1) * C::kGroupRows - 1) {}
  };

  // Whether the item was spoilt.
  RONDO_DEVICE bool Attend(const SharedPlace& place) {
    Item item(args_, place, group_);
    if (item.rows.keys_begin < item.rows.keys_end) {
      gpu::MbarrierWait(S::QueriesFull(), RingPlace<1>(queries_++).filled);
    }
    Partials partials(args_, place);
    FoldBlocks<kBlock, C::kTileKeys>(args_, item.rows.keys_begin, item.rows.keys_end, &partials,
                                     [&](int begin, int end) { AttendBlock(begin, end, &item, &partials); });
    return item.spoilt;
  }

  // The keys of one block. While the softmax of a tile is computed, the tensor cores sum the values of the tile before.
  RONDO_DEVICE void AttendBlock(int begin, int end, Item* item, Partials* partials) {
    Scores s;
    Probabilities p;
    TakeTurn();
    StartScores(tiles_, s);
    gpu::WgmmaCommit();  // an empty group in the place of the values of a tile before the first
    PassTurn();
    for (int tile = begin;; tile += C::kTileKeys) {
      gpu::WgmmaWait<1>();
      gpu::PinRegisters(s);
      ReleaseKeys(tiles_, tile + C::kTileKeys >= item->rows.keys_end);
      float rescale[2];
      AddScores(tile, *item, s, rescale, partials);
      gpu::WgmmaWait<0>();
      gpu::PinRegisters(partials->o[0]);
      if (tile > begin) ReleaseValues(tiles_ - 1, tile - C::kTileKeys, item);
      partials->Rescale(0, rescale);
      P::Pack(s, p);
      TakeTurn();
      ++tiles_;
      if (tile + C::kTileKeys >= end) break;
      StartScores(tiles_, s);
      StartValues(tiles_ - 1, p, &partials->o[0]);
      PassTurn();
    }
    StartValues(tiles_ - 1, p, &partials->o[0]);
    PassTurn();
    gpu::WgmmaWait<0>();
    gpu::PinRegisters(partials->o[0]);
    ReleaseValues(tiles_ - 1, (end - 1) / C::kTileKeys * C::kTileKeys, item);
  }

  // Of the two rows this thread holds. What depends on a row is computed on the few tiles that ask for it.
  RONDO_DEVICE static int OwnRow(int half) {
    const int thread = gpu::Opaque(gpu::ThreadIndex());
    return thread / 32 * 16 + thread % 32 / 4 + half * 8;
  }

  RONDO_DEVICE void StartScores(uint32_t n, Scores& s) const {
    const RingPlace<C::kStages> at(n);
    gpu::MbarrierWait(S::KeysFull(at.stage), at.filled);
    gpu::WgmmaFence();
    P::Scores(S::Queries(group_), S::Keys(at.stage), s);
    gpu::WgmmaCommit();
  }

  RONDO_DEVICE void StartValues(uint32_t n, const Probabilities& p, float (*o)[C::kValueDim / 8][4]) const {
    const RingPlace<C::kStages> at(n);
    gpu::MbarrierWait(S::ValuesFull(at.stage), at.filled);
    gpu::PinRegisters(*o);
    gpu::PinRegisters(p);
    gpu::WgmmaFence();
    P::Values(p, S::Values(at.stage), *o);
    gpu::WgmmaCommit();
  }

  // The products that read this tile are done; so are those with Q, where it is the item's last one.
  RONDO_DEVICE void ReleaseKeys(uint32_t n, bool last) const {
    Release(S::KeysEmpty(RingPlace<C::kStages>(n).stage));
    if (last) Release(S::QueriesEmpty());
  }

  // Where a row does not see all of a tile, values must be finite. It may be that only zeros were loaded in their
  // place, and that the item need not be done again: no harm.
  RONDO_DEVICE void ReleaseValues(uint32_t n, int tile, Item* item) const {
    const int stage = RingPlace<C::kStages>(n).stage;
    if (item->edges.Cut(tile, tile + C::kTileKeys)) item->spoilt |= gpu::WarpAny(AnyValueNotFinite(S::Values(stage)));
    Release(S::ValuesEmpty(stage));
  }

  // Of the part of the tile this thread looks at; a note of any warp has the item done again.
  RONDO_DEVICE static bool AnyValueNotFinite(gpu::Shared values) {
    bool any = false;
    for (int at = gpu::Opaque(gpu::ThreadIndex()) % C::kGroupThreads * 16; at < S::kTileBytes;
         at += C::kGroupThreads * 16) {
      any |= AnyNotFinite<typename C::Element>(gpu::LoadShared<gpu::Word4>(values + at));
    }
    return any;
  }

  // By one lane, after all lanes of its warp.
  RONDO_DEVICE static void Release(gpu::Shared empty) {
    gpu::WarpSync();
    if (gpu::LaneIndex() == 0) gpu::MbarrierArrive(empty);
  }

  RONDO_DEVICE void AddScores(int tile, const Item& item, Scores& s, float (&rescale)[2], Partials* partials) const {
    if (IsBent(args_.score)) {
      const int row[2] = {OwnRow(0), OwnRow(1)};
      const float slope = SlopeOf(args_.score, item.place.head());
      BendScores(args_.score, {slope, slope}, {item.rows.OwnKey(row[0], tile), item.rows.OwnKey(row[1], tile)}, s);
    }
    if (item.edges.Cut(tile, tile + C::kTileKeys)) {
      const int row[2] = {OwnRow(0), OwnRow(1)};
      MaskScores({item.rows.Interval(row[0], tile), item.rows.Interval(row[1], tile)}, s);
    }
    partials->AddScores(0, ScoreFactor(args_.score), s, rescale);
  }

  // The tensor cores: the groups queue their products in turns.
  static constexpr int kTurnBarrier = 1;  // and 2: a named barrier for each group; 0 is CtaSync's
  RONDO_DEVICE void TakeTurn() const {
    if (C::kTurns) gpu::NamedBarrierSync(kTurnBarrier + group_, C::kRowThreads);
  }
  RONDO_DEVICE void PassTurn() const {
    if (C::kTurns) gpu::NamedBarrierArrive(kTurnBarrier + 1 - group_, C::kRowThreads);
  }

  const AttentionArgs& args_;
  const int group_;
  uint32_t queries_ = 0;  // of items that had keys
  uint32_t tiles_ = 0;
};

}  // namespace rondo::cuda
