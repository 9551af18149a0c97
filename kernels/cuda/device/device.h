// The primitives CUDA kernels are written in: threads, barriers, copies, tensor cores. Every kernel source includes
// this and names neither PTX nor the emulator that tests it without a GPU; the include path decides which side it gets:
//
//   nvcc  -I kernels/cuda/device/ptx      the instructions
//   g++   -I tests/testing/simt/side      the emulator
//
// Both sides declare, in rondo::gpu:
//
//   RONDO_KERNEL(threads, ctas_per_multiprocessor) Name(args)   a kernel; RONDO_DEVICE a function it calls
//   RONDO_UNROLL RONDO_UNROLL_BY(times)                         before a loop
//   ThreadIndex LaneIndex CtaIndex CtaCount SharedMemory        where am I; the first shared address
//   CtaSync CtaSyncOr WarpSync WarpAny ShuffleXor NamedBarrierSync NamedBarrierArrive
//   Load Store LoadShared StoreShared                           plain memory; a Shared is a 32-bit shared address
//   LoadVolatile StoreVolatile Opaque                           in this order; computed here and not ahead of time
//   CopyAsync16 CommitCopies WaitCopies<keep>                   cp.async: 16 bytes, zeros where not valid
//   LoadMatrix4 LoadMatrix4Transposed MultiplyAdd<Element>      ldmatrix.x4, mma.sync.m16n8k16, Element Bf16 or Fp16
//   Pack<Element>(low, high) Exp2 Log2 Fma Max Min Ceil Reciprocal FloatFromBits BitsFromFloat
//   CountTrailingZeros BitWidth PopCount
//
// Arithmetic is what is written: kernels are compiled without contraction, and Fma stands where one is meant.
#pragma once

#include <rondo_gpu/side.h>
