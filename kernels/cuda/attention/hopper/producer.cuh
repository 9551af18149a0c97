// The warp of the sm_90a kernel that brings queries, keys and values to shared memory, as far ahead as stages are
// empty. All lanes wait for a stage and one fills it: they meet before each wait, or a lane that comes two fillings
// late would take the parity of one phase for that of another.
#pragma once

#include "kernels/cuda/attention/hopper/stages.cuh"
#include "kernels/cuda/attention/hopper/tensor_maps.h"
#include "kernels/cuda/attention/hopper/work_list.cuh"
#include "kernels/cuda/attention/row_span.cuh"

namespace rondo::cuda {

struct HopperMaps {
  gpu::TensorMap queries;
  gpu::TensorMap keys;
};

template <class C>
class Producer {
 public:
  static constexpr int D = C::kHeadDim;
  static constexpr int kBlock = C::kBlockTokensOfTree;
  using S = Stages<C>;

  RONDO_DEVICE Producer(const AttentionArgs& args, const HopperMaps& maps) : args_(args), maps_(maps) {}

  RONDO_DEVICE void Run() {
    WorkList<C> work(args_);
    while (work.Next([&] { WaitForConsumers(); })) {
      HandOver(work.head, work.first_row, work.valid_rows, work.number);
      const RowSpan<kBlock, RowPlace> rows(args_, RowPlace(work.head, 0, work.first_row, work.valid_rows));
      keys_begin_ = rows.keys_begin;
      keys_end_ = rows.keys_end;
      if (keys_begin_ >= keys_end_) continue;
      kv_head_ = work.head / (args_.q_heads / args_.kv_heads);
      LoadQueries(work.head, work.first_row);
      // In the order in which they are used: scores of a tile are computed before the values of the tile before it.
      int tile = keys_begin_ / C::kTileKeys * C::kTileKeys;
      LoadKeys(tiles_, tile);
      for (; tile < keys_end_; tile += C::kTileKeys) {
        if (tile + C::kTileKeys < keys_end_) LoadKeys(tiles_ + 1, tile + C::kTileKeys);
        LoadValues(tiles_++, tile);
      }
    }
    HandOver(0, 0, 0, -1);
  }

 private:
  // By all lanes, of which one then fills what is empty. They meet first: a lane that came only when it had been filled
  // and emptied again would wait for a phase that is over.
  RONDO_DEVICE static void Await(gpu::Shared barrier, uint32_t parity) {
    gpu::MbarrierWait(barrier, parity);
    gpu::WarpSync();
  }

  RONDO_DEVICE void HandOver(int head, int first_row, int valid_rows, int number) {
    const RingPlace<C::kItemSlots> at(items_++);
    Await(S::ItemEmpty(at.stage), at.emptied);
    if (gpu::LaneIndex() != 0) return;
    SharedPlace(S::Item(at.stage)).Set(head, first_row, valid_rows, number);
    gpu::MbarrierArrive(S::ItemFull(at.stage));
  }

  // As if every slot was to be filled anew.
  RONDO_DEVICE void WaitForConsumers() const {
    for (int i = 0; i < C::kItemSlots; ++i) {
      const RingPlace<C::kItemSlots> at(items_ + i);
      Await(S::ItemEmpty(at.stage), at.emptied);
    }
  }

  RONDO_DEVICE void LoadQueries(int head, int first_row) {
    Await(S::QueriesEmpty(), RingPlace<1>(queries_++).emptied);
    if (gpu::LaneIndex() == 0) {
      gpu::MbarrierArriveExpect(S::QueriesFull(), C::kGroups * S::kGroupQueryBytes);
      for (int group = 0; group < C::kGroups; ++group) {
        for (int slab = 0; slab < S::kSlabs; ++slab) {
          gpu::TmaLoad3(S::Queries(group) + slab * S::kQuerySlabBytes, maps_.queries, slab * kLineElements,
                        first_row + group * C::kGroupRows, head, S::QueriesFull());
        }
      }
    }
  }

  RONDO_DEVICE void LoadKeys(uint32_t n, int tile) {
    const RingPlace<C::kStages> at(n);
    Await(S::KeysEmpty(at.stage), at.emptied);
    Fill(args_.keys.k, tile, S::Keys(at.stage), S::KeysFull(at.stage));
  }

  RONDO_DEVICE void LoadValues(uint32_t n, int tile) {
    const RingPlace<C::kStages> at(n);
    Await(S::ValuesEmpty(at.stage), at.emptied);
    Fill(args_.keys.v, tile, S::Values(at.stage), S::ValuesFull(at.stage));
  }

  RONDO_DEVICE bool IsWhole(int half) const { return half >= keys_begin_ && half + C::kHalfKeys <= keys_end_; }

  // A tile in halves. Those of which every key is seen by some row come by TMA; the others by hand, with zeros for keys
  // that no row sees: they may be past the end of the tensor, and their values NaN.
  RONDO_DEVICE void Fill(const void* tensor, int tile, gpu::Shared to, gpu::Shared full) {
    uint32_t expected = 0;
    RONDO_UNROLL
    for (int i = 0; i < C::kHalves; ++i) {
      const int half = tile + i * C::kHalfKeys;
      if (IsWhole(half)) {
        expected += S::kSlabs * S::kHalfLines;
      } else {
        CopyHalf(tensor, half, to + i * S::kHalfLines);
      }
    }
    if (expected < S::kTileBytes) {
      gpu::CommitCopies();
      gpu::WaitCopies<0>();
      gpu::FenceProxyAsync();  // wgmma reads what threads wrote
      gpu::WarpSync();
    }
    if (gpu::LaneIndex() != 0) return;
    gpu::MbarrierArriveExpect(full, expected);
    RONDO_UNROLL
    for (int i = 0; i < C::kHalves; ++i) {
      const int half = tile + i * C::kHalfKeys;
      if (IsWhole(half)) LoadHalf(tensor, half, to + i * S::kHalfLines, full);
    }
  }

  RONDO_DEVICE const uint16_t* RowsAt(const void* tensor, int key) const {
    return static_cast<const uint16_t*>(tensor) + KeyOffset(args_.keys, key, kv_head_);
  }

  RONDO_DEVICE void LoadHalf(const void* tensor, int half, gpu::Shared to, gpu::Shared full) {
    const uint64_t units = (reinterpret_cast<uintptr_t>(RowsAt(tensor, half)) - kMapBase) / kMapUnitBytes;
    const int low = static_cast<int>(units & ((uint64_t{1} << kMapUnitsLog2) - 1));
    const int high = static_cast<int>(units >> kMapUnitsLog2);
    for (int slab = 0; slab < S::kSlabs; ++slab) {
      gpu::TmaLoad4(to + slab * S::kSlabBytes, maps_.keys, slab * kLineElements, 0, low, high, full);
    }
  }

  // A page no row sees anything of need not exist: of such a half only zeros are written, and its address is not asked.
  RONDO_DEVICE void CopyHalf(const void* tensor, int half, gpu::Shared to) {
    constexpr int kChunks = D / 8;  // of 16 bytes a row
    const bool any = half < keys_end_ && half + C::kHalfKeys > keys_begin_;
    const uint16_t* const rows = any ? RowsAt(tensor, half) : static_cast<const uint16_t*>(tensor);
    RONDO_UNROLL_BY(2)
    for (int i = gpu::LaneIndex(); i < C::kHalfKeys * kChunks; i += 32) {
      const int row = i / kChunks;
      const int slab = i % kChunks / 8;
      const int chunk = i % 8;
      const int key = half + row;
      gpu::CopyAsync16(
          to + static_cast<gpu::Shared>(slab * S::kSlabBytes + row * kLineBytes + (chunk ^ (row & 7)) * 16),
          rows + row * args_.keys.row_stride + slab * kLineElements + chunk * 8, key >= keys_begin_ && key < keys_end_);
    }
  }

  const AttentionArgs& args_;
  const HopperMaps& maps_;
  int kv_head_ = 0;
  int keys_begin_ = 0, keys_end_ = 0;  // what the item's rows together see
  uint32_t items_ = 0, queries_ = 0, tiles_ = 0;
};

}  // namespace rondo::cuda
