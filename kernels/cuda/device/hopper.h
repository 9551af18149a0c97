// The primitives of sm_90 beside those of device.h: mbarriers, TMA with 128-byte swizzle, wgmma, for kernels of sm_90a.
// Same rule: the include path decides. The PTX side compiles for sm_90a alone. In rondo::gpu:
//
//   MbarrierInit MbarrierArrive MbarrierArriveExpect MbarrierWait FenceMbarrierInit
//   TensorMap TmaLoad2 TmaLoad3 TmaLoad4           copies that count their bytes at an mbarrier
//   FenceProxyAsync                                what this thread wrote to shared memory, wgmma and TMA see
//   WgmmaShared<Element, n>(d, a, b, accumulate)   d 64 x n (+)= a b, both K-major in shared memory, by descriptors
//   WgmmaRegisters<Element, n>(d, a, b, ...)       a in registers, b MN-major; n 64, 128 or 256, d float[n / 8][4]
//   WgmmaFence WgmmaCommit WgmmaWait<keep> ReleaseRegisters<n> ClaimRegisters<n>
//   PinRegisters LoadSharedAnew WarpUniform        for the compiler: nothing moves past, nothing is kept, all alike
#pragma once

#include <rondo_gpu/hopper_side.h>

#include "kernels/cuda/device/device.h"
