// What a CTA of the sm_90a kernel does, one item after another. The producer walks the list and hands each item over in
// shared memory; consumers look it up there whenever they need it, because they have no registers to keep it in.
#pragma once

#include "kernels/cuda/attention/hopper/hopper_config.h"
#include "kernels/cuda/attention/hopper/stages.cuh"
#include "kernels/cuda/attention/row_items.cuh"

namespace rondo::cuda {

// An item in its slot. Beside the rows its number, -1 when it need not be noted.
class SharedPlace {
 public:
  RONDO_DEVICE explicit SharedPlace(gpu::Shared at) : at_(at) {}

  RONDO_DEVICE int head() const { return gpu::LoadSharedAnew(at_); }
  RONDO_DEVICE int part() const { return 0; }
  RONDO_DEVICE int first_row() const { return gpu::LoadSharedAnew(at_ + 4); }
  RONDO_DEVICE int valid_rows() const { return gpu::LoadSharedAnew(at_ + 8); }  // 0: there are no more items
  RONDO_DEVICE int number() const { return gpu::LoadSharedAnew(at_ + 12); }

  RONDO_DEVICE void Set(int head, int first_row, int valid_rows, int number) const {
    gpu::StoreShared(at_, head);
    gpu::StoreShared(at_ + 4, first_row);
    gpu::StoreShared(at_ + 8, valid_rows);
    gpu::StoreShared(at_ + 12, number);
  }

 private:
  gpu::Shared at_;
};

// Values that are not finite, where some rows of an item see them and others do not, spoil the latter: 0 * v is NaN. A
// warp of a consumer that meets some notes the item, and goes on: the producer is ahead of it. The producer looks at
// the notes when all items are done, and has noted ones done again row by row, which cannot go wrong: a row sees every
// key that is loaded for it.
template <class C>
class Notes {
 public:
  // [items, warps], after the pending nodes.
  RONDO_DEVICE static uint8_t* Of(const AttentionArgs& args, int number) {
    constexpr int kBlock = C::kBlockTokensOfTree;
    const int64_t pending = ScratchFloats<C>(gpu::CtaCount(), (args.keys.tokens + kBlock - 1) / kBlock);
    return reinterpret_cast<uint8_t*>(args.scratch + pending) + int64_t{number} * C::kRowWarps;
  }

  // By each warp that holds rows, at the end of each item.
  RONDO_DEVICE static void Write(const AttentionArgs& args, int number, bool spoilt) {
    if (number < 0 || gpu::LaneIndex() != 0) return;
    gpu::Store(Of(args, number) + gpu::ThreadIndex() / 32, static_cast<uint8_t>(spoilt));
    if (spoilt) gpu::StoreShared(Stages<C>::Spoilt(), 1);
  }

  RONDO_DEVICE static bool Any(const AttentionArgs& args, int number) {
    bool any = false;
    for (int warp = 0; warp < C::kRowWarps; ++warp) any |= gpu::Load(Of(args, number) + warp) != 0;
    return any;
  }
};

template <class C>
class WorkList {
 public:
  RONDO_DEVICE explicit WorkList(const AttentionArgs& args) : args_(args) {}

  int head;
  int first_row, valid_rows;
  int number;

  // To the next item; false after the last one. `wait` returns when the consumers are done with all items so far.
  template <class Wait>
  RONDO_DEVICE bool Next(Wait wait) {
    const RowItems<C> items(args_);
    if (again_ && first_row + 1 < end_) {
      ++first_row;
      return true;
    }
    for (;;) {
      if (round_ == items.rounds()) {
        if (again_) return false;
        wait();
        if (gpu::LoadSharedAnew(Stages<C>::Spoilt()) == 0) return false;
        again_ = true;
        round_ = 0;
      }
      number = items.Number(round_++);
      if (number < 0 || (again_ && !Notes<C>::Any(args_, number))) continue;
      const RowItem item = items.At(number);
      head = item.head;
      first_row = item.begin;
      end_ = item.end;
      valid_rows = again_ ? 1 : item.end - item.begin;
      if (again_) number = -1;
      return true;
    }
  }

 private:
  const AttentionArgs& args_;
  int round_ = 0;
  int end_ = 0;         // of the item's rows
  bool again_ = false;  // row by row
};

}  // namespace rondo::cuda
