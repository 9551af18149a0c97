// The PTX side of kernels/cuda/device/hopper.h. For sm_90a and nothing else: its instructions exist on no other GPU.
#pragma once

#include <cuda.h>
#include <rondo_gpu/side.h>

#include "kernels/cuda/device/ptx/rondo_gpu/wgmma.h"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "Kernels that include hopper.h are compiled for sm_90a alone (rondo_cuda_hopper_kernels)"
#endif

namespace rondo::gpu {

// The first lane's value: what is the same in a warp, and known to be to the compiler.
RONDO_DEVICE int WarpUniform(int value) { return __shfl_sync(kAllLanes, value, 0); }

// Read each time it is asked for: the compiler does not keep it in a register.
RONDO_DEVICE int LoadSharedAnew(Shared address) {
  int value;
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

using TensorMap = CUtensorMap;  // a __grid_constant__ parameter

RONDO_DEVICE void MbarrierInit(Shared at, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
RONDO_DEVICE void MbarrierArrive(Shared at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
RONDO_DEVICE void MbarrierArriveExpect(Shared at, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
// try_wait suspends the thread for a while and may come back empty-handed.
RONDO_DEVICE void MbarrierWait(Shared at, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(at), "r"(parity)
                 : "memory");
  } while (done == 0);
}
// Initialised barriers become visible to TMA.
RONDO_DEVICE void FenceMbarrierInit() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// What this thread wrote to shared memory becomes visible to wgmma and TMA.
RONDO_DEVICE void FenceProxyAsync() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

RONDO_DEVICE void TmaLoad2(Shared to, const TensorMap& map, int x, int y, Shared mbarrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(to),
      "l"(&map), "r"(mbarrier), "r"(x), "r"(y)
      : "memory");
}
RONDO_DEVICE void TmaLoad3(Shared to, const TensorMap& map, int x, int y, int z, Shared mbarrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(mbarrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
RONDO_DEVICE void TmaLoad4(Shared to, const TensorMap& map, int x, int y, int z, int w, Shared mbarrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(mbarrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

template <class Element, int kN>
RONDO_DEVICE void WgmmaShared(float (&d)[kN / 8][4], uint64_t a, uint64_t b, bool accumulate) {
  Wgmma<Element, kN>::Shared(d, a, b, accumulate);
}
template <class Element, int kN>
RONDO_DEVICE void WgmmaRegisters(float (&d)[kN / 8][4], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  Wgmma<Element, kN>::Registers(d, a, b, accumulate);
}
RONDO_DEVICE void WgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
RONDO_DEVICE void WgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kKeep>
RONDO_DEVICE void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kKeep) : "memory");
}

// Keeps the compiler from moving uses of these registers over this point, which a wait for the tensor core is not to
// it.
template <int kTiles>
RONDO_DEVICE void PinRegisters(float (&d)[kTiles][4]) {
  RONDO_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    asm volatile("" : "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])::"memory");
  }
}

// The same for operands, before the fence that lets a product read what was written to them.
template <int kSteps>
RONDO_DEVICE void PinRegisters(const uint32_t (&a)[kSteps][4]) {
  RONDO_UNROLL
  for (int n = 0; n < kSteps; ++n) {
    asm volatile("" ::"r"(a[n][0]), "r"(a[n][1]), "r"(a[n][2]), "r"(a[n][3]) : "memory");
  }
}

// Of a warpgroup, each thread to so many.
template <int kRegisters>
RONDO_DEVICE void ReleaseRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
RONDO_DEVICE void ClaimRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace rondo::gpu
