// Shared memory of the sm_90a kernel and the order in which its stages go round: where tiles lie, and the mbarriers
// that say who may touch them. Used by the producer and the consumers.
//
// A tile is slabs of 64 columns, rows of 128 bytes one after the other, swizzled: what TMA writes and wgmma reads.
#pragma once

#include "kernels/cuda/device/hopper.h"

namespace rondo::cuda {

inline constexpr int kLineBytes = 128;
inline constexpr int kLineElements = 64;
inline constexpr int kSwizzleBytes = 8 * kLineBytes;  // the pattern repeats, and tiles begin at multiples

template <class C>
struct Stages {
  static constexpr int kSlabs = C::kHeadDim / kLineElements;
  static constexpr int kQuerySlabBytes = C::kGroupRows * kLineBytes;
  static constexpr int kGroupQueryBytes = kSlabs * kQuerySlabBytes;
  static constexpr int kSlabBytes = C::kTileKeys * kLineBytes;
  static constexpr int kTileBytes = kSlabs * kSlabBytes;
  static constexpr int kHalfLines = C::kHalfKeys * kLineBytes;  // bytes of one slab of half a tile

  static constexpr int kKeysAt = C::kGroups * kGroupQueryBytes;
  static constexpr int kValuesAt = kKeysAt + C::kStages * kTileBytes;
  static constexpr int kItemsAt = kValuesAt + C::kStages * kTileBytes;
  static constexpr int kSpoiltAt = kItemsAt + C::kItemSlots * 16;
  static constexpr int kBarriersAt = kSpoiltAt + 16;
  static constexpr int kBarriers = 2 + 4 * C::kStages + 2 * C::kItemSlots;
  static constexpr int kSharedBytes = kBarriersAt + kBarriers * 8;
  static_assert(kSharedBytes <= 227 * 1024);

  RONDO_DEVICE static gpu::Shared Queries(int group) { return At(group * kGroupQueryBytes); }
  RONDO_DEVICE static gpu::Shared Keys(int stage) { return At(kKeysAt + stage * kTileBytes); }
  RONDO_DEVICE static gpu::Shared Values(int stage) { return At(kValuesAt + stage * kTileBytes); }

  RONDO_DEVICE static gpu::Shared Item(int slot) { return At(kItemsAt + slot * 16); }  // SharedPlace
  RONDO_DEVICE static gpu::Shared Spoilt() { return At(kSpoiltAt); }                   // int: not 0 once an item was

  // Full: the producer's arrival and the bytes it announced. Empty: a lane of each warp that reads has arrived.
  RONDO_DEVICE static gpu::Shared QueriesFull() { return Barrier(0); }
  RONDO_DEVICE static gpu::Shared QueriesEmpty() { return Barrier(1); }
  RONDO_DEVICE static gpu::Shared KeysFull(int stage) { return Barrier(2 + 4 * stage); }
  RONDO_DEVICE static gpu::Shared KeysEmpty(int stage) { return Barrier(3 + 4 * stage); }
  RONDO_DEVICE static gpu::Shared ValuesFull(int stage) { return Barrier(4 + 4 * stage); }
  RONDO_DEVICE static gpu::Shared ValuesEmpty(int stage) { return Barrier(5 + 4 * stage); }
  RONDO_DEVICE static gpu::Shared ItemFull(int slot) { return Barrier(2 + 4 * C::kStages + 2 * slot); }
  RONDO_DEVICE static gpu::Shared ItemEmpty(int slot) { return Barrier(3 + 4 * C::kStages + 2 * slot); }

  // By one thread, before the others come.
  RONDO_DEVICE static void Init() {
    gpu::StoreShared(Spoilt(), 0);
    for (int i = 0; i < kBarriers; ++i) gpu::MbarrierInit(Barrier(i), i % 2 == 0 ? 1 : C::kRowWarps);
    gpu::FenceMbarrierInit();
  }

 private:
  RONDO_DEVICE static gpu::Shared At(int offset) { return gpu::SharedMemory() + static_cast<gpu::Shared>(offset); }
  RONDO_DEVICE static gpu::Shared Barrier(int i) { return At(kBarriersAt + 8 * i); }
};

// The n-th thing that goes through a ring of stages, counted from the launch's first by both sides alike.
template <int kStages>
struct RingPlace {
  int stage;
  uint32_t filled;   // the parity to wait for before reading
  uint32_t emptied;  // before writing; the first round waits for the phase before the first, which has passed

  RONDO_DEVICE explicit RingPlace(uint32_t n)
      : stage(static_cast<int>(n % kStages)), filled(n / kStages % 2), emptied(filled ^ 1) {}
};

}  // namespace rondo::cuda
