// The emulator's side of kernels/cuda/device/hopper.h: mbarriers, TMA and wgmma of sm_90.
#pragma once

#include <rondo_gpu/side.h>

#include "tests/testing/simt/mbarrier.h"
#include "tests/testing/simt/tma.h"
#include "tests/testing/simt/wgmma.h"

namespace rondo::gpu {

using TensorMap = simt::TensorMap;

inline void MbarrierInit(Shared at, int count, Where w = Where::current()) {
  simt::MbarrierInit(at, count, {"MbarrierInit", w});
}
inline void MbarrierArrive(Shared at, Where w = Where::current()) { simt::MbarrierArrive(at, {"MbarrierArrive", w}); }
inline void MbarrierArriveExpect(Shared at, uint32_t bytes, Where w = Where::current()) {
  simt::MbarrierArriveExpect(at, bytes, {"MbarrierArriveExpect", w});
}
inline void MbarrierWait(Shared at, uint32_t parity, Where w = Where::current()) {
  simt::MbarrierWait(at, parity, {"MbarrierWait", w});
}
inline void FenceMbarrierInit() {}

inline void TmaLoad2(Shared to, const TensorMap& map, int x, int y, Shared mbarrier, Where w = Where::current()) {
  simt::TmaLoad(to, map, {x, y, 0}, mbarrier, {"TmaLoad2", w});
}
inline void TmaLoad3(Shared to, const TensorMap& map, int x, int y, int z, Shared mbarrier,
                     Where w = Where::current()) {
  simt::TmaLoad(to, map, {x, y, z}, mbarrier, {"TmaLoad3", w});
}

// d = a * b + (accumulate ? d : 0); both from shared memory, K-major.
template <class Element, int kN>
void WgmmaShared(float (&d)[kN / 2], uint64_t a, uint64_t b, bool accumulate, Where w = Where::current()) {
  simt::Wgmma(Element::kHalf, d, {.descriptor_a = a, .descriptor_b = b, .accumulate = accumulate}, {"WgmmaShared", w});
}
// a from registers, b from shared memory, MN-major.
template <class Element, int kN>
void WgmmaRegisters(float (&d)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate,
                    Where w = Where::current()) {
  simt::Wgmma(Element::kHalf, d, {.a = a, .descriptor_b = b, .b_mn_major = true, .accumulate = accumulate},
              {"WgmmaRegisters", w});
}
inline void WgmmaFence() {}
inline void WgmmaCommit(Where w = Where::current()) { simt::WgmmaCommit({"WgmmaCommit", w}); }
template <int kKeep>
void WgmmaWait(Where w = Where::current()) {
  simt::WgmmaWait(kKeep, {"WgmmaWait", w});
}

template <int kRegisters>
void ReleaseRegisters() {}
template <int kRegisters>
void ClaimRegisters() {}

}  // namespace rondo::gpu
