// One-lane vector of floats and int32: the kernels' templates over it are the plain scalar code that defines the bits
// of the CPU family. Used by kernels/cpu/; compile with -mfma so that Fma is one instruction.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#define RONDO_SIMD [[gnu::always_inline]] static inline

// All vector types have the same operations with the same meaning on every bit, NaN and signed zero included. They
// live in an unnamed namespace: a template instantiated with one is local to its translation unit, so the linker can
// never pick a copy that was compiled for another instruction set.
namespace rondo::simd {
namespace {

struct Scalar {
  static constexpr int kLanes = 1;
  using F = float;    // floats
  using I = int32_t;  // int32 lanes, arithmetic wraps
  using M = bool;     // a truth value per lane

  RONDO_SIMD F Zero() { return 0.0f; }
  RONDO_SIMD F Set(float x) { return x; }
  RONDO_SIMD F Load(const float* p) { return *p; }  // no alignment needed
  RONDO_SIMD void Store(float* p, F a) { *p = a; }
  // Lanes [0, n) from memory, the rest +0; nothing past p[n - 1] is touched. 0 <= n <= kLanes.
  RONDO_SIMD F LoadPartial(const float* p, int n) { return n > 0 ? *p : 0.0f; }
  RONDO_SIMD void StorePartial(float* p, F a, int n) {
    if (n > 0) *p = a;
  }
  RONDO_SIMD F LoadBf16(const uint16_t* p) { return AsFloat(static_cast<int32_t>(static_cast<uint32_t>(*p) << 16)); }

  RONDO_SIMD F Add(F a, F b) { return a + b; }
  RONDO_SIMD F Sub(F a, F b) { return a - b; }
  RONDO_SIMD F Mul(F a, F b) { return a * b; }
  RONDO_SIMD F Div(F a, F b) { return a / b; }
  RONDO_SIMD F Sqrt(F a) { return std::sqrt(a); }
  RONDO_SIMD F Fma(F a, F b, F c) { return std::fma(a, b, c); }  // a * b + c, one rounding
  RONDO_SIMD F Max(F a, F b) { return a > b ? a : b; }           // b where either is NaN or both are zero
  RONDO_SIMD F Min(F a, F b) { return a < b ? a : b; }           // b where either is NaN or both are zero
  RONDO_SIMD F Abs(F a) { return AsFloat(AsInt(a) & 0x7fffffff); }
  RONDO_SIMD F Ceil(F a) { return std::ceil(a); }
  RONDO_SIMD F Round(F a) { return std::nearbyint(a); }  // to nearest, ties to even
  RONDO_SIMD M Less(F a, F b) { return a < b; }          // false where either is NaN
  RONDO_SIMD M Equal(F a, F b) { return a == b; }
  RONDO_SIMD F Select(M m, F a, F b) { return m ? a : b; }
  RONDO_SIMD F SwapPairs(F a) { return a; }  // lane i <-> lane i ^ 1; the identity with one lane

  RONDO_SIMD I SetI(int32_t x) { return x; }
  RONDO_SIMD I Iota() { return 0; }  // 0, 1, 2, ...
  RONDO_SIMD I LoadI(const int32_t* p) { return *p; }
  RONDO_SIMD void StoreI(int32_t* p, I a) { *p = a; }
  RONDO_SIMD I AddI(I a, I b) { return static_cast<I>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b)); }
  RONDO_SIMD I SubI(I a, I b) { return static_cast<I>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b)); }
  RONDO_SIMD I AndI(I a, I b) { return a & b; }
  RONDO_SIMD I OrI(I a, I b) { return a | b; }
  template <int kBits>
  RONDO_SIMD I ShiftLeft(I a) {
    return static_cast<I>(static_cast<uint32_t>(a) << kBits);
  }
  template <int kBits>
  RONDO_SIMD I ShiftRight(I a) {  // logical: zeros come in
    return static_cast<I>(static_cast<uint32_t>(a) >> kBits);
  }
  RONDO_SIMD M LessI(I a, I b) { return a < b; }
  RONDO_SIMD M EqualI(I a, I b) { return a == b; }
  RONDO_SIMD I SelectI(M m, I a, I b) { return m ? a : b; }

  RONDO_SIMD I AsInt(F a) { return std::bit_cast<int32_t>(a); }
  RONDO_SIMD F AsFloat(I a) { return std::bit_cast<float>(a); }
  RONDO_SIMD I ToInt(F a) { return static_cast<int32_t>(std::nearbyint(a)); }  // |a| < 2^31, ties to even
  RONDO_SIMD F ToFloat(I a) { return static_cast<float>(a); }

  RONDO_SIMD M And(M a, M b) { return a && b; }
  RONDO_SIMD M Or(M a, M b) { return a || b; }
  RONDO_SIMD bool Any(M a) { return a; }

  RONDO_SIMD void Transpose(F (&)[1]) {}  // rows[i] lane j <-> rows[j] lane i
};

}  // namespace
}  // namespace rondo::simd
