// Decode's second product: weights times values, head_dim in lanes, several heads sharing every load. Used by
// few_rows_kernel.h. Leaf code: no std, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/scalar.h"

namespace rondo::attention {
namespace {

// T is the KV type: float, or uint16_t for bf16.
template <typename V, typename T>
struct FewRowsValues {
  using F = typename V::F;
  static constexpr int kN = V::kLanes;
  static constexpr bool kPaired = sizeof(T) == 2;

  // Keys in [begin, end), some of those the heads see, in ascending order; o holds the sums of the keys before.
  struct Keys {
    int begin = 0;
    int end = 0;
    bool first = false;                // none before: o is not read
    const std::byte* fetch = nullptr;  // as many bytes as are read are fetched from here on
    bool last = false;  // none after: o becomes the answer. Until then its elements lie in the order of the sums.
  };

  // o [kCount][head_dim] += p . values for kCount heads; p [kCount][p_stride].
  template <int kCount>
  static void Add(const float* p, size_t p_stride, const T* values, int head_dim, const Keys& keys, float* o) {
    int d = 0;
    const auto columns = [&]<int kVectors, bool kPartial>() __attribute__((always_inline)) {
      Columns<kCount, kVectors, kPartial>(p, p_stride, values + d, head_dim, keys, o + d, head_dim - d,
                                          keys.fetch + static_cast<size_t>(keys.end - keys.begin) * d * sizeof(T));
      d += kVectors * kN;
    };
    if constexpr (kCount < 4) {
      while (head_dim - d >= 4 * kN) columns.template operator()<4, false>();
    }
    while (head_dim - d >= 2 * kN) columns.template operator()<2, false>();
    while (head_dim - d >= kN) columns.template operator()<1, false>();
    if (d < head_dim) columns.template operator()<1, true>();
  }

 private:
  RONDO_SIMD F LoadOne(const float* p) { return V::Load(p); }
  RONDO_SIMD F LoadOne(const uint16_t* p) { return V::LoadBf16(p); }
  RONDO_SIMD F LoadPart(const float* p, int n) { return V::LoadPartial(p, n); }
  RONDO_SIMD F LoadPart(const uint16_t* p, int n) {
    uint16_t whole[kN] = {};
    __builtin_memcpy(whole, p, static_cast<size_t>(n) * sizeof(uint16_t));
    return V::LoadBf16(whole);
  }
  // Two vectors' worth of elements. bf16 come as the even ones and the odd ones: that needs no shuffle, and the sums
  // are put in order once, at the end.
  RONDO_SIMD void LoadTwo(const float* p, F& a, F& b) { a = V::Load(p), b = V::Load(p + kN); }
  RONDO_SIMD void LoadTwo(const uint16_t* p, F& a, F& b) {
    const typename V::I both = V::AsInt(V::Load(reinterpret_cast<const float*>(p)));
    a = V::AsFloat(V::template ShiftLeft<16>(both));
    b = V::AsFloat(V::AndI(both, V::SetI(-65536)));
  }

  template <int kCount, int kVectors, bool kPartial>
  [[gnu::noinline]] static void Columns(const float* p, size_t p_stride, const T* values, int head_dim,
                                        const Keys& keys, float* o, int width, const std::byte* fetch) {
    constexpr int kBytes = kVectors * kN * static_cast<int>(sizeof(T));  // fetched with each key
    const auto ahead = [&](int bytes) __attribute__((always_inline)) {
      for (int i = 0; i < bytes; i += 64) __builtin_prefetch(fetch + i, 0, 2);
      fetch += bytes;
    };
    F acc[kVectors][kCount];
    const auto at = [&](int c, int h) { return o + static_cast<size_t>(h) * head_dim + c * kN; };
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) {
#pragma GCC unroll 4
      for (int h = 0; h < kCount; ++h) {
        acc[c][h] = keys.first ? V::Zero() : kPartial ? V::LoadPartial(at(c, h), width) : V::Load(at(c, h));
      }
    }
    const auto step = [&](int k) __attribute__((always_inline)) {
      const T* v = values + static_cast<size_t>(k) * head_dim;
      if constexpr (kVectors == 1) {
        const F x = kPartial ? LoadPart(v, width) : LoadOne(v);
#pragma GCC unroll 4
        for (int h = 0; h < kCount; ++h) V::AddProduct(acc[0][h], V::Broadcast(p + h * p_stride + k), x);
      } else {
#pragma GCC unroll 2
        for (int c = 0; c < kVectors; c += 2) {
          F a, b;
          LoadTwo(v + c * kN, a, b);
#pragma GCC unroll 4
          for (int h = 0; h < kCount; ++h) {
            const F w = V::Broadcast(p + h * p_stride + k);
            V::AddProduct(acc[c][h], w, a), V::AddProduct(acc[c + 1][h], w, b);
          }
        }
      }
    };
    int k = keys.begin;
    if constexpr (kPaired) {
      if (k % 2 != 0) step(k++);
      for (; k + 1 < keys.end; k += 2) ahead(2 * kBytes), step(k + 1), step(k);
    }
    for (; k < keys.end; ++k) ahead(kBytes), step(k);
#pragma GCC unroll 4
    for (int h = 0; h < kCount; ++h) {
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) acc[c][h] = V::Add(acc[c][h], V::Zero());
      if constexpr (kPaired && kVectors > 1) {
        if (keys.last) {
#pragma GCC unroll 2
          for (int c = 0; c < kVectors; c += 2) V::Interleave(acc[c][h], acc[c + 1][h], acc[c][h], acc[c + 1][h]);
        }
      }
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) {
        if (kPartial) {
          V::StorePartial(at(c, h), acc[c][h], width);
        } else {
          V::Store(at(c, h), acc[c][h]);
        }
      }
    }
  }
};

}  // namespace
}  // namespace rondo::attention
