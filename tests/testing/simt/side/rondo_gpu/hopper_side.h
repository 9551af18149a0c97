// The emulator's side of kernels/cuda/device/hopper.h: mbarriers, TMA and wgmma of sm_90.
#pragma once

#include <rondo_gpu/side.h>

#include "tests/testing/simt/mbarrier.h"
#include "tests/testing/simt/tma.h"
#include "tests/testing/simt/wgmma.h"

namespace rondo::gpu {

inline int LoadSharedAnew(Shared address, Where w = Where::current()) { return LoadShared<int>(address, w); }

using TensorMap = simt::TensorMap;

inline int WarpUniform(int value) { return value; }  // the compiler's business

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
inline void FenceProxyAsync() { simt::ThisCta().shared().FenceAsync(); }

inline void TmaLoad2(Shared to, const TensorMap& map, int x, int y, Shared mbarrier, Where w = Where::current()) {
  simt::TmaLoad(to, map, {x, y, 0, 0}, mbarrier, {"TmaLoad2", w});
}
inline void TmaLoad3(Shared to, const TensorMap& map, int x, int y, int z, Shared mbarrier,
                     Where w = Where::current()) {
  simt::TmaLoad(to, map, {x, y, z, 0}, mbarrier, {"TmaLoad3", w});
}

inline void TmaLoad4(Shared to, const TensorMap& map, int x, int y, int z, int w, Shared mbarrier,
                     Where where = Where::current()) {
  simt::TmaLoad(to, map, {x, y, z, w}, mbarrier, {"TmaLoad4", where});
}

// d = a * b + (accumulate ? d : 0); both from shared memory, K-major.
template <class Element, int kN>
void WgmmaShared(float (&d)[kN / 8][4], uint64_t a, uint64_t b, bool accumulate, Where w = Where::current()) {
  simt::Wgmma(Element::kHalf, {&d[0][0], kN / 2}, {.descriptor_a = a, .descriptor_b = b, .accumulate = accumulate},
              {"WgmmaShared", w});
}
// a from registers, b from shared memory, MN-major.
template <class Element, int kN>
void WgmmaRegisters(float (&d)[kN / 8][4], const uint32_t (&a)[4], uint64_t b, bool accumulate,
                    Where w = Where::current()) {
  simt::Wgmma(Element::kHalf, {&d[0][0], kN / 2},
              {.a = a, .descriptor_b = b, .b_mn_major = true, .accumulate = accumulate}, {"WgmmaRegisters", w});
}
// The register allocator's business.
template <int kTiles>
void PinRegisters(float (&)[kTiles][4]) {}
template <int kSteps>
void PinRegisters(const uint32_t (&)[kSteps][4]) {}

inline void WgmmaFence() { simt::WgmmaFence(); }
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
