// Brings queries, keys and values into the layouts of the strip kernel, over a vector type and a register tile; used by
// the ops_*.cc. Leaf code: no std, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/exp2.h"
#include "kernels/cpu/simd/scalar.h"

namespace rondo::attention {
namespace {

inline constexpr int kBlock = 256;

template <typename V, typename Tile>
struct PackKernel {
  using F = typename V::F;
  static constexpr int kN = V::kLanes;
  static constexpr int kLanes = Tile::kLanes;
  static constexpr int kVectors = kLanes / kN;
  static constexpr int kRows = Tile::kRows;
  static_assert(kRows == kN / 2);  // a vector holds the values of two keys
  static constexpr int kPiece = Tile::kPiece;
  // Packed values: pieces of keys, in them groups of kRows values of every key. The odd line keeps the groups that
  // packing writes side by side out of one another's L1 sets.
  static constexpr int kValueGroup = kPiece * kRows + 16;

  static int Padded(int head_dim) { return (head_dim + kRows - 1) / kRows * kRows; }
  static size_t PieceSize(int head_dim) { return static_cast<size_t>(Padded(head_dim) / kRows) * kValueGroup; }
  static size_t PackedValuesSize(int head_dim) { return PieceSize(head_dim) * (kBlock / kPiece); }
  // The values of key k and of those after it in its piece.
  RONDO_SIMD size_t ValueOffset(int k, int head_dim) {
    return k / kPiece * PieceSize(head_dim) + static_cast<size_t>(k % kPiece) * kRows;
  }

  static void PackQueries(const float* const* rows, int head_dim, float factor, bool paired, float* q) {
    const F scale = V::Set(factor);
    for (int c = 0; c < kVectors; ++c) {
      for (int d = 0; d < head_dim; d += kN) {
        const int width = head_dim - d < kN ? head_dim - d : kN;
        F x[kN];
        for (int i = 0; i < kN; ++i) {
          const float* row = rows[c * kN + i] + d;
          x[i] = V::Mul(width == kN ? V::Load(row) : V::LoadPartial(row, width), scale);
        }
        V::Transpose(x);
        for (int i = 0; i < width; ++i) {
          const int place = !paired ? i : (i ^ 1) < width ? i ^ 1 : i;  // kN is even: pairs do not straddle
          V::Store(q + (d + place) * kLanes + c * kN, paired ? RoundAnyToBf16<V>(x[i]) : x[i]);
        }
      }
    }
  }

  static void WidenKeys(const uint16_t* keys, int head_dim, int begin, int end, float* out) {
    for (int k = begin; k < end; ++k) {
      const uint16_t* in = keys + static_cast<size_t>(k) * head_dim;
      float* to = out + static_cast<size_t>(k) * head_dim;
      int d = 0;
      for (; d + kN <= head_dim; d += kN) V::Store(to + d, V::SwapPairs(V::LoadBf16(in + d)));
      for (; d < head_dim; ++d) to[(d ^ 1) < head_dim ? d ^ 1 : d] = Widen(in[d]);
    }
  }

  // Four keys of kRows values at a time: whole lines are written. Finite values times 0 add up to 0, others to NaN.
  static bool PackValues(const std::byte* values, bool paired, int head_dim, int begin, int end, int tokens,
                         float* packed) {
    return paired ? PackAs<uint16_t>(values, head_dim, begin, end, tokens, packed)
                  : PackAs<float>(values, head_dim, begin, end, tokens, packed);
  }

 private:
  RONDO_SIMD float Widen(float x) { return x; }
  RONDO_SIMD float Widen(uint16_t x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16); }

  template <typename T>
  static bool PackAs(const std::byte* values, int head_dim, int begin, int end, int tokens, float* packed) {
    static constexpr T kZeros[256] = {};
    const F zero = V::Zero();
    F check[2] = {zero, zero};
    for (int k = begin; k < end; k += 4) {
      const T* row[4];
      for (int i = 0; i < 4; ++i) {
        const int key = sizeof(T) == 2 ? (k + i) ^ 1 : k + i;
        row[i] = key < tokens ? reinterpret_cast<const T*>(values) + static_cast<size_t>(key) * head_dim : kZeros;
      }
      float* to = packed + ValueOffset(k, head_dim);
      int d = 0;
      for (; d + kRows <= head_dim; d += kRows, to += kValueGroup) {
        const F low = V::LoadHalves(row[0] + d, row[1] + d), high = V::LoadHalves(row[2] + d, row[3] + d);
        check[0] = V::Fma(low, zero, check[0]);
        check[1] = V::Fma(high, zero, check[1]);
        V::Store(to, low);
        V::Store(to + kN, high);
      }
      if (d == head_dim) continue;
      for (int i = 0; i < 4; ++i) {
        for (int r = 0; r < kRows; ++r) to[i * kRows + r] = d + r < head_dim ? Widen(row[i][d + r]) : 0.0f;
      }
      check[0] = V::Fma(V::Load(to), zero, check[0]);
      check[1] = V::Fma(V::Load(to + kN), zero, check[1]);
    }
    const F sum = V::Add(check[0], check[1]);
    const typename V::I exponent = V::SetI(0x7f800000);
    return !V::Any(V::EqualI(V::AndI(V::AsInt(sum), exponent), exponent));
  }
};

}  // namespace
}  // namespace rondo::attention
