// The PTX side of kernels/cuda/device/device.h: what a kernel source gets when nvcc compiles it. sm_80 and up.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#define RONDO_DEVICE __device__ __forceinline__
#define RONDO_KERNEL(threads, ctas_per_multiprocessor) \
  __global__ void __launch_bounds__(threads, ctas_per_multiprocessor)
#define RONDO_GRID_CONSTANT __grid_constant__
#define RONDO_UNROLL _Pragma("unroll")
#define RONDO_PRAGMA(text) _Pragma(#text)
#define RONDO_UNROLL_BY(times) RONDO_PRAGMA(unroll times)

namespace rondo::gpu {

using Shared = uint32_t;

struct Bf16 {};
struct Fp16 {};

using Float4 = float4;
using Float2 = float2;
using Word4 = uint4;

inline constexpr uint32_t kAllLanes = 0xffffffffu;

extern __shared__ __align__(1024) unsigned char rondo_shared_memory[];

RONDO_DEVICE int ThreadIndex() { return static_cast<int>(threadIdx.x); }
RONDO_DEVICE int LaneIndex() { return static_cast<int>(threadIdx.x % 32); }
RONDO_DEVICE int CtaIndex() { return static_cast<int>(blockIdx.x); }
RONDO_DEVICE int CtaCount() { return static_cast<int>(gridDim.x); }
RONDO_DEVICE Shared SharedMemory() { return static_cast<Shared>(__cvta_generic_to_shared(rondo_shared_memory)); }

RONDO_DEVICE void CtaSync() { __syncthreads(); }
RONDO_DEVICE bool CtaSyncOr(bool mine) { return __syncthreads_or(mine) != 0; }
RONDO_DEVICE void WarpSync() { __syncwarp(); }
RONDO_DEVICE bool WarpAny(bool mine) { return __any_sync(kAllLanes, mine) != 0; }
template <class T>
RONDO_DEVICE T ShuffleXor(T value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}
RONDO_DEVICE void NamedBarrierSync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
RONDO_DEVICE void NamedBarrierArrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <class T>
RONDO_DEVICE T LoadShared(Shared address) {
  return *static_cast<const T*>(__cvta_shared_to_generic(address));
}
template <class T>
RONDO_DEVICE void StoreShared(Shared address, const T& value) {
  *static_cast<T*>(__cvta_shared_to_generic(address)) = value;
}
template <class T>
RONDO_DEVICE T Load(const T* from) {
  return *from;
}
template <class T>
RONDO_DEVICE void Store(T* to, const T& value) {
  *to = value;
}

// In this order, however many registers would be free to do more at once.
RONDO_DEVICE Float4 LoadVolatile(const Float4* from) {
  Float4 value;
  asm volatile("ld.volatile.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(from)
               : "memory");
  return value;
}
RONDO_DEVICE void StoreVolatile(Float4* to, const Float4& value) {
  asm volatile("st.volatile.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(value.x), "f"(value.y), "f"(value.z),
               "f"(value.w)
               : "memory");
}

RONDO_DEVICE void CopyAsync16(Shared to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
RONDO_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kKeep>
RONDO_DEVICE void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kKeep) : "memory");
}

RONDO_DEVICE void LoadMatrix4(uint32_t (&r)[4], Shared address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
RONDO_DEVICE void LoadMatrix4Transposed(uint32_t (&r)[4], Shared address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// The same number, of which the compiler knows nothing: what is computed from it is computed here and not ahead of
// time, where it would fill registers that a loop needs.
RONDO_DEVICE int Opaque(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

template <class Element>
RONDO_DEVICE void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
RONDO_DEVICE void MultiplyAdd<Bf16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
RONDO_DEVICE void MultiplyAdd<Fp16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <class Element>
RONDO_DEVICE uint32_t Pack(float low, float high);
template <>
RONDO_DEVICE uint32_t Pack<Bf16>(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
template <>
RONDO_DEVICE uint32_t Pack<Fp16>(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

RONDO_DEVICE float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
RONDO_DEVICE float Log2(float x) { return log2f(x); }
RONDO_DEVICE float Fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
RONDO_DEVICE float Max(float a, float b) { return fmaxf(a, b); }
RONDO_DEVICE float Min(float a, float b) { return fminf(a, b); }
RONDO_DEVICE float Ceil(float x) { return ceilf(x); }
RONDO_DEVICE float Reciprocal(float x) { return __frcp_rn(x); }
RONDO_DEVICE float FloatFromBits(uint32_t bits) { return __uint_as_float(bits); }
RONDO_DEVICE uint32_t BitsFromFloat(float x) { return __float_as_uint(x); }
RONDO_DEVICE int CountTrailingZeros(uint64_t x) { return x == 0 ? 64 : __ffsll(static_cast<long long>(x)) - 1; }
RONDO_DEVICE int BitWidth(uint64_t x) { return 64 - __clzll(static_cast<long long>(x)); }
RONDO_DEVICE int PopCount(uint64_t x) { return __popcll(x); }

}  // namespace rondo::gpu
