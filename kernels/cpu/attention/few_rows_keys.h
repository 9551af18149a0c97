// Decode's scores: groups of keys are transposed so that keys lie in lanes, then meet the queries of several heads.
// Used by few_rows_kernel.h. Leaf code: no std, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/scalar.h"

namespace rondo::attention {
namespace {

// T is the KV type: float, or uint16_t for bf16. Then two elements of a key travel as one float as far as the
// product, which halves the shuffles and the stores.
template <typename V, typename T>
struct FewRowsKeys {
  using F = typename V::F;
  static constexpr int kN = V::kLanes;
  static constexpr int kKeys = 32;  // a group: transposed it takes 8 or 16 KiB of L1
  static constexpr bool kPaired = sizeof(T) == 2;
  static constexpr int kSquare = kN * 4 / sizeof(T);  // d of a square of kN keys, a vector of bytes each

  // Floats of a transposed group.
  static constexpr size_t Size(int head_dim) { return static_cast<size_t>((head_dim + kN - 1) / kN * kN) * kKeys; }

  // out [head_dim][kKeys], in pairs [head_dim / 2][kKeys], <- keys [first, first + kKeys) of the `tokens` rows at
  // `keys`; what lies past the tokens or past head_dim is +0.
  [[gnu::noinline]] static void Transpose(const T* keys, int head_dim, int tokens, int first, float* out) {
    for (int k = 0; k < kKeys; k += kN, out += kN) {
      const T* rows = keys + static_cast<size_t>(first + k) * head_dim;
      const size_t bytes = static_cast<size_t>(kN) * head_dim * sizeof(T);
      const char* next = reinterpret_cast<const char*>(rows) + bytes;
      for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(next + i, 0, 3);
      int d = 0;
      if (first + k + kN <= tokens && (!kPaired || head_dim % 2 == 0)) {
        for (; d + kSquare <= head_dim; d += kSquare) {
          Square(reinterpret_cast<const float*>(rows + d), static_cast<size_t>(head_dim) * sizeof(T) / 4, Row(out, d));
        }
      }
      const int count = tokens - first - k < kN ? tokens - first - k : kN;
      for (; d < head_dim; d += kSquare) {
        const size_t part = (head_dim - d < kSquare ? head_dim - d : kSquare) * sizeof(T);
        float whole[kN * kN] = {};
        for (int i = 0; i < count; ++i) {
          __builtin_memcpy(whole + i * kN, rows + static_cast<size_t>(i) * head_dim + d, part);
        }
        Square(whole, kN, Row(out, d));
      }
    }
  }

  // scores [kCount][stride] <- the group at `keys` times kCount heads' q [kCount][head_dim]. Meanwhile as many bytes as
  // the group was made of are fetched from `fetch` on.
  template <int kCount>
  [[gnu::noinline]] static void Scores(const float* q, const float* keys, int head_dim, float* scores, size_t stride,
                                       const std::byte* fetch) {
    // Two products a cycle with a latency of four want eight sums or more; of AVX2's sixteen registers twelve at most.
    constexpr int kVectors = kCount == 4 ? 2 : 4 < kKeys / kN ? 4 : kKeys / kN;
    for (int v = 0; v < kKeys / kN; v += kVectors, keys += kVectors * kN, scores += kVectors * kN) {
      F acc[kVectors][kCount];
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) {
#pragma GCC unroll 4
        for (int h = 0; h < kCount; ++h) acc[c][h] = V::Zero();
      }
      // One product of every sum, or two if paired, takes as long as fetching this much should.
      const auto ahead = [&]() __attribute__((always_inline)) {
        for (int i = 0; i < kVectors * kN * 4; i += 64) __builtin_prefetch(fetch + i, 0, 2);
        fetch += kVectors * kN * 4;
      };
      const auto step = [&](int d, auto widen) __attribute__((always_inline)) {
        F w[kCount];
#pragma GCC unroll 4
        for (int h = 0; h < kCount; ++h) w[h] = V::Set(q[h * head_dim + d]);
#pragma GCC unroll 4
        for (int c = 0; c < kVectors; ++c) {
          const F x = widen(V::Load(Row(keys, d) + c * kN));
#pragma GCC unroll 4
          for (int h = 0; h < kCount; ++h) V::AddProduct(acc[c][h], w[h], x);
        }
      };
      if constexpr (kPaired) {
        const auto even = [](F both) { return V::AsFloat(V::template ShiftLeft<16>(V::AsInt(both))); };
        const auto odd = [](F both) { return V::AsFloat(V::AndI(V::AsInt(both), V::SetI(-65536))); };
        int d = 0;
        for (; d + 1 < head_dim; d += 2) ahead(), step(d + 1, odd), step(d, even);
        if (d < head_dim) step(d, even);
      } else {
        const auto same = [](F x) { return x; };
        for (int d = 0; d < head_dim; ++d) ahead(), step(d, same);
      }
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) {
#pragma GCC unroll 4
        for (int h = 0; h < kCount; ++h) V::Store(scores + h * stride + c * kN, acc[c][h]);
      }
    }
  }

 private:
  // Where element d lies in a transposed group.
  template <typename Float>
  RONDO_SIMD Float* Row(Float* keys, int d) {
    return keys + static_cast<size_t>(kPaired ? d / 2 : d) * kKeys;
  }

  // kN rows of a vector each, `stride` floats apart.
  RONDO_SIMD void Square(const float* rows, size_t stride, float* out) {
    F x[kN];
    if constexpr (requires { V::LoadTransposed(rows, stride, x); }) {
      V::LoadTransposed(rows, stride, x);
    } else {
      for (int i = 0; i < kN; ++i) x[i] = V::Load(rows + i * stride);
      V::Transpose(x);
    }
    for (int i = 0; i < kN; ++i) V::Store(out + i * kKeys, x[i]);
  }
};

}  // namespace
}  // namespace rondo::attention
