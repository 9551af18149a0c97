// The emulator's side of kernels/cuda/device/device.h: what a kernel source gets when g++ compiles it. Every primitive
// notes where the kernel called it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>

#include "tests/testing/simt/barriers.h"
#include "tests/testing/simt/copies.h"
#include "tests/testing/simt/cta.h"
#include "tests/testing/simt/matrix.h"
#include "tests/testing/simt/small_floats.h"

#define RONDO_DEVICE inline
#define RONDO_KERNEL(threads, ctas_per_multiprocessor) inline void
#define RONDO_GRID_CONSTANT
#define RONDO_UNROLL
#define RONDO_UNROLL_BY(times)

namespace rondo::gpu {

using Where = std::source_location;
using simt::CallSite;
using Shared = uint32_t;

struct Bf16 {
  static constexpr simt::Half kHalf = simt::Half::kBf16;
};
struct Fp16 {
  static constexpr simt::Half kHalf = simt::Half::kFp16;
};

inline int ThreadIndex() { return simt::ThisCta().self().index; }
inline int LaneIndex() { return ThreadIndex() % simt::kWarp; }
inline int CtaIndex() { return simt::ThisCta().index(); }
inline int CtaCount() { return simt::ThisCta().count(); }
inline Shared SharedMemory() { return 0; }

inline void CtaSync(Where w = Where::current()) { simt::CtaSync({"CtaSync", w}); }
inline bool CtaSyncOr(bool mine, Where w = Where::current()) { return simt::CtaSyncOr(mine, {"CtaSyncOr", w}); }
inline void WarpSync(Where w = Where::current()) { simt::WarpSync({"WarpSync", w}); }
inline bool WarpAny(bool mine, Where w = Where::current()) { return simt::WarpAny(mine, {"WarpAny", w}); }
template <class T>
T ShuffleXor(T value, int mask, Where w = Where::current()) {
  return simt::ShuffleXor(value, mask, {"ShuffleXor", w});
}
inline void NamedBarrierSync(int id, int threads, Where w = Where::current()) {
  simt::NamedBarrierSync(id, threads, {"NamedBarrierSync", w});
}
inline void NamedBarrierArrive(int id, int threads, Where w = Where::current()) {
  simt::NamedBarrierArrive(id, threads, {"NamedBarrierArrive", w});
}

template <class T>
T LoadShared(Shared address, Where w = Where::current()) {
  T value;
  std::memcpy(&value, simt::ThisCta().shared().Read(address, sizeof(T), alignof(T), {"LoadShared", w}), sizeof(T));
  return value;
}
template <class T>
void StoreShared(Shared address, const T& value, Where w = Where::current()) {
  std::memcpy(simt::ThisCta().shared().Write(address, sizeof(T), alignof(T), {"StoreShared", w}), &value, sizeof(T));
}
template <class T>
T Load(const T* from, Where w = Where::current()) {
  simt::CheckGlobal(from, sizeof(T), alignof(T), false, {"Load", w});
  return *from;
}
template <class T>
void Store(T* to, const T& value, Where w = Where::current()) {
  simt::CheckGlobal(to, sizeof(T), alignof(T), true, {"Store", w});
  *to = value;
}

struct alignas(16) Float4 {
  float x, y, z, w;
};
struct alignas(8) Float2 {
  float x, y;
};
struct alignas(16) Word4 {
  uint32_t x, y, z, w;
};

inline Float4 LoadVolatile(const Float4* from, Where w = Where::current()) { return Load(from, w); }
inline void StoreVolatile(Float4* to, const Float4& value, Where w = Where::current()) { Store(to, value, w); }

inline void CopyAsync16(Shared to, const void* from, bool valid, Where w = Where::current()) {
  simt::CopyAsync16(to, from, valid, {"CopyAsync16", w});
}
inline void CommitCopies(Where w = Where::current()) { simt::CommitCopies({"CommitCopies", w}); }
template <int kKeep>
void WaitCopies(Where w = Where::current()) {
  simt::WaitCopies(kKeep, {"WaitCopies", w});
}

inline void LoadMatrix4(uint32_t (&r)[4], Shared address, Where w = Where::current()) {
  simt::LoadMatrix4(r, address, false, {"LoadMatrix4", w});
}
inline void LoadMatrix4Transposed(uint32_t (&r)[4], Shared address, Where w = Where::current()) {
  simt::LoadMatrix4(r, address, true, {"LoadMatrix4Transposed", w});
}
inline int Opaque(int value) { return value; }

template <class Element>
void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Where w = Where::current()) {
  simt::MultiplyAdd(Element::kHalf, d, a, b0, b1, {"MultiplyAdd", w});
}

template <class Element>
uint32_t Pack(float low, float high) {
  const auto round = [](float f) {
    return static_cast<uint32_t>(Element::kHalf == simt::Half::kBf16 ? simt::FloatToBf16(f) : simt::FloatToFp16(f));
  };
  return round(low) | round(high) << 16;
}

inline float Exp2(float x) { return x < -126.0f ? 0.0f : std::exp2(x); }  // ftz
inline float Log2(float x) { return std::log2(x); }
inline float Fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float Max(float a, float b) { return std::fmax(a, b); }
inline float Min(float a, float b) { return std::fmin(a, b); }
inline float Ceil(float x) { return std::ceil(x); }
inline float Reciprocal(float x) { return 1.0f / x; }
inline float FloatFromBits(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t BitsFromFloat(float x) { return std::bit_cast<uint32_t>(x); }
inline int CountTrailingZeros(uint64_t x) { return std::countr_zero(x); }  // 64 for 0
inline int BitWidth(uint64_t x) { return std::bit_width(x); }
inline int PopCount(uint64_t x) { return std::popcount(x); }

}  // namespace rondo::gpu
