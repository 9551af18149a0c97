// The primitives of sm_90 beside those of device.h: mbarriers, TMA with 128-byte swizzle, wgmma, for kernels of sm_90a.
// Same rule: the include path decides. Only the emulator's side exists; the first kernel brings the other. In rondo::gpu:
//
//   MbarrierInit MbarrierArrive MbarrierArriveExpect MbarrierWait FenceMbarrierInit
//   TensorMap TmaLoad2 TmaLoad3                    copies that count their bytes at an mbarrier
//   WgmmaShared<Element, n>(d, a, b, accumulate)   d 64 x n (+)= a b, both K-major in shared memory, by descriptors
//   WgmmaRegisters<Element, n>(d, a, b, ...)       a in registers, b MN-major
//   WgmmaFence WgmmaCommit WgmmaWait<keep> ReleaseRegisters<n> ClaimRegisters<n>
#pragma once

#include <rondo_gpu/hopper_side.h>

#include "kernels/cuda/device/device.h"
