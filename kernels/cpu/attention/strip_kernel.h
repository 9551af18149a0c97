// Many query rows: queries in lanes, a strip of them against one block, over a vector type and a register tile; used
// by the ops_*.cc. Leaf code: no std, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/definition.h"
#include "kernels/cpu/attention/exp2.h"
#include "kernels/cpu/attention/ops.h"
#include "kernels/cpu/attention/transform.h"
#include "kernels/cpu/simd/scalar.h"

namespace rondo::attention {
namespace {

inline constexpr int kBlock = 256;

template <typename V, typename Tile>
struct StripKernel {
  using F = typename V::F;
  using M = typename V::M;
  static constexpr int kN = V::kLanes;
  static constexpr int kLanes = Tile::kLanes;
  static constexpr int kVectors = kLanes / kN;
  static constexpr int kRows = Tile::kRows;
  // Weights are made and used in pieces of so many keys: 128 keys x 24 lanes are 12 KiB, which stay in L1 beside the
  // values while all of head_dim passes over them. It does not enter the bits.
  static constexpr int kPiece = 128;
  // One group of kRows values for 256 keys; the odd line keeps the groups out of one another's L1 sets.
  static constexpr int kValueGroup = kBlock * kRows + 16;

  static int Padded(int head_dim) { return (head_dim + kRows - 1) / kRows * kRows; }
  static size_t PackedValuesSize(int head_dim) { return static_cast<size_t>(Padded(head_dim) / kRows) * kValueGroup; }

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

  static bool PackValues(const std::byte* values, bool paired, int head_dim, int begin, int end, int tokens,
                         float* packed) {
    const M none = V::Less(V::Zero(), V::Zero());
    M bad = none;
    alignas(64) float rows[4][256];
    for (int k = begin; k < end; k += 4) {  // four keys of four values: whole lines are written
      const float* row[4];
      for (int i = 0; i < 4; ++i) {
        const int key = paired ? (k + i) ^ 1 : k + i;
        row[i] = rows[i];
        if (key >= tokens) {
          for (int d = 0; d < head_dim; ++d) rows[i][d] = 0;
        } else if (paired) {
          const uint16_t* in = reinterpret_cast<const uint16_t*>(values) + static_cast<size_t>(key) * head_dim;
          int d = 0;
          for (; d + kN <= head_dim; d += kN) V::Store(rows[i] + d, V::LoadBf16(in + d));
          for (; d < head_dim; ++d) rows[i][d] = Widen(in[d]);
        } else {
          row[i] = reinterpret_cast<const float*>(values) + static_cast<size_t>(key) * head_dim;
        }
        int d = 0;
        for (; d + kN <= head_dim; d += kN) bad = V::Or(bad, NotFinite(V::Load(row[i] + d)));
        if (d < head_dim) bad = V::Or(bad, NotFinite(V::LoadPartial(row[i] + d, head_dim - d)));
      }
      int d = 0;
      float* to = packed + static_cast<size_t>(k) * kRows;
      for (; d + kRows <= head_dim; d += kRows, to += kValueGroup) {
        for (int i = 0; i < 4; ++i) __builtin_memcpy(to + i * kRows, row[i] + d, kRows * sizeof(float));
      }
      if (d < head_dim) {
        for (int i = 0; i < 4; ++i) {
          for (int r = 0; r < kRows; ++r) to[i * kRows + r] = d + r < head_dim ? row[i][d + r] : 0.0f;
        }
      }
    }
    return !V::Any(bad);
  }

  static void Block(const StripBlock& a) {
    const int begin = a.first[0] / kRows * kRows;
    const int end = (a.last[kLanes - 1] + kRows - 1) / kRows * kRows;
    const int padded = Padded(a.head_dim);
    float* m = a.partial + static_cast<size_t>(padded) * kLanes;
    float* l = m + kLanes;
    alignas(64) float max[kLanes];
    Scores(a, begin, end, max);
    if (Transforms(a.score)) Transform(a, begin, end, max);
    Exp2<V> weight[kVectors];
    F sum[kVectors];
    for (int c = 0; c < kVectors; ++c) {
      const F top = V::Load(max + c * kN);
      const M sees = V::LessI(V::LoadI(a.first + c * kN), V::LoadI(a.last + c * kN));
      if (V::Any(V::And(sees, NeedsClamp<V>(top)))) ClampScores(a, begin, end, c);
      const F integer = IntegerMax<V>(top);
      weight[c] = Exp2<V>::For(integer);
      sum[c] = V::Zero();
      V::Store(m + c * kN, V::Select(sees, integer, V::Set(kEmpty)));
    }
    for (int i = 0; i < padded * kLanes; i += kN) V::Store(a.partial + i, V::Zero());
    const bool masked = begin < a.first[kLanes - 1] || end > a.last[0];
    for (int k = begin; k < end; k += kPiece) {
      const int keys = end - k < kPiece ? end - k : kPiece;
      float* p = a.scores + k * kLanes;
      if (a.paired) {
        PairedWeights(p, keys, weight, sum);
      } else {
        Weights(p, keys, weight, sum);
      }
      if (masked && !a.values_finite) {
        AccumulateVisible(a, k, keys);
        continue;
      }
      const float* values = a.values + k * kRows;
      for (int d = 0; d < padded; d += kRows, values += kValueGroup) {
        float* o = a.partial + d * kLanes;
        for (int i = 0; i < kRows * kLanes; i += 16) __builtin_prefetch(o + kRows * kLanes + i, 1);
        Tile::Accumulate(p, values, keys, o);
      }
    }
    for (int c = 0; c < kVectors; ++c) V::Store(l + c * kN, sum[c]);
    // An o that was flushed to -0 becomes +0, so that passing over masked keys or multiplying them by 0 is the same.
    for (int i = 0; i < padded * kLanes; i += kN) V::Store(a.partial + i, V::Add(V::Load(a.partial + i), V::Zero()));
  }

  static void Merge(float* left, const float* right, int head_dim) {
    const int o_size = Padded(head_dim) * kLanes;
    for (int c = 0; c < kVectors; ++c) {
      float *lm = left + o_size + c * kN, *ll = lm + kLanes;
      const float *rm = right + o_size + c * kN, *rl = rm + kLanes;
      const F a = V::Load(ll), b = V::Load(rl), ma = V::Load(lm), mb = V::Load(rm);
      const M a_empty = V::Equal(a, V::Zero()), b_empty = V::Equal(b, V::Zero());
      const F top = V::Max(ma, mb);
      const F wa = PowerOfTwo<V>(V::Sub(ma, top)), wb = PowerOfTwo<V>(V::Sub(mb, top));
      const auto join = [&](F x, F y) { return V::Fma(x, wa, V::Mul(y, wb)); };
      const auto pick = [&](F x, F y, F both) { return V::Select(a_empty, y, V::Select(b_empty, x, both)); };
      V::Store(lm, pick(ma, mb, top));
      V::Store(ll, pick(a, b, join(a, b)));
      if (V::Any(V::Or(a_empty, b_empty))) {
        for (int i = c * kN; i < o_size; i += kLanes) {
          const F x = V::Load(left + i), y = V::Load(right + i);
          V::Store(left + i, pick(x, y, join(x, y)));
        }
      } else {
        for (int i = c * kN; i < o_size; i += kLanes) V::Store(left + i, join(V::Load(left + i), V::Load(right + i)));
      }
    }
  }

  static void Unpack(const float* partial, int head_dim, int count, float* const* out) {
    for (int c = 0; c * kN < count; ++c) {
      for (int d = 0; d < head_dim; d += kN) {
        const int width = head_dim - d < kN ? head_dim - d : kN;
        F x[kN];
        for (int i = 0; i < kN; ++i) x[i] = i < width ? V::Load(partial + (d + i) * kLanes + c * kN) : V::Zero();
        V::Transpose(x);
        for (int i = 0; i < kN && c * kN + i < count; ++i) {
          float* to = out[c * kN + i] + d;
          if (width == kN) {
            V::Store(to, x[i]);
          } else {
            V::StorePartial(to, x[i], width);
          }
        }
      }
    }
  }

 private:
  static constexpr float kEmpty = -1048576.0f;  // kEmptyMax of rondo/attention_kernels.h
  static constexpr float kUnseen = -__builtin_inff();

  RONDO_SIMD float Widen(uint16_t x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16); }

  RONDO_SIMD M NotFinite(F x) {
    const typename V::I exponent = V::SetI(0x7f800000);
    return V::EqualI(V::AndI(V::AsInt(x), exponent), exponent);
  }

  RONDO_SIMD M Visible(const StripBlock& a, int key, int c) {
    const typename V::I k = V::SetI(key);
    const M before = V::LessI(k, V::LoadI(a.last + c * kN));
    return V::And(before, V::LessI(V::SetI(-1), V::SubI(k, V::LoadI(a.first + c * kN))));
  }

  // The scores of keys [begin, end), -inf where masked, and their maxima.
  static void Scores(const StripBlock& a, int begin, int end, float* max) {
    for (int c = 0; c < kVectors; ++c) V::Store(max + c * kN, V::Set(kUnseen));
    alignas(64) float unused[kLanes];
    for (int i = 0; i < kLanes; ++i) unused[i] = 0;
    for (int k = begin; k < end; k += kRows) {
      const float* keys = k >= a.tail_begin ? a.tail_keys : a.keys + static_cast<size_t>(k) * a.head_dim;
      float* s = a.scores + k * kLanes;
      if (k >= a.first[kLanes - 1] && k + kRows <= a.last[0]) {
        Tile::Scores(a.q, keys, a.head_dim, s, max);
        continue;
      }
      Tile::Scores(a.q, keys, a.head_dim, s, unused);
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kVectors; ++c) {
          const F x = V::Select(Visible(a, k + r, c), V::Load(s + r * kLanes + c * kN), V::Set(kUnseen));
          V::Store(s + r * kLanes + c * kN, x);
          V::Store(max + c * kN, V::Max(x, V::Load(max + c * kN)));
        }
      }
    }
  }

  // Soft cap and bias, and the maxima again.
  [[gnu::noinline]] static void Transform(const StripBlock& a, int begin, int end, float* max) {
    if (a.score.slopes == nullptr) {
      TransformAs<true, false>(a, begin, end, max);
    } else if (a.score.cap == 0) {
      TransformAs<false, true>(a, begin, end, max);
    } else {
      TransformAs<true, true>(a, begin, end, max);
    }
  }

  template <bool kCap, bool kBias>
  static void TransformAs(const StripBlock& a, int begin, int end, float* max) {
    const F cap = V::Set(a.score.cap), rate = V::Set(a.score.cap_rate);
    for (int c = 0; c < kVectors; ++c) {
      const F slope = kBias ? V::Load(a.score.slopes + c * kN) : V::Zero();
      const typename V::I distance = kBias ? V::LoadI(a.distance + c * kN) : V::SetI(0);
      F top = V::Set(kUnseen);
      for (int k = begin; k < end; ++k) {
        float* at = a.scores + k * kLanes + c * kN;
        F s = V::Load(at);
        if constexpr (kCap) s = SoftCap<V>(s, cap, rate);
        if constexpr (kBias) s = Bias<V>(s, slope, V::SubI(distance, V::SetI(k)));
        if (k < a.first[kLanes - 1] || k >= a.last[0]) s = V::Select(Visible(a, k, c), s, V::Set(kUnseen));
        top = V::Max(s, top);
        V::Store(at, s);
      }
      V::Store(max + c * kN, top);
    }
  }

  // The rare case: some row's maximum is out of range.
  [[gnu::noinline]] static void ClampScores(const StripBlock& a, int begin, int end, int c) {
    for (int k = begin; k < end; ++k) {
      float* s = a.scores + k * kLanes + c * kN;
      V::Store(s, V::Select(Visible(a, k, c), Clamp<V>(V::Load(s)), V::Set(kUnseen)));
    }
  }

  static void Weights(float* p, int keys, const Exp2<V>* weight, F* sum) {
    for (int c = 0; c < kVectors; ++c) {
      const Exp2<V> exp2 = weight[c];
      F l = sum[c];
      for (int k = 0; k < keys; ++k) {
        const F x = exp2(V::Load(p + k * kLanes + c * kN));
        l = V::Add(l, x);
        V::Store(p + k * kLanes + c * kN, x);
      }
      sum[c] = l;
    }
  }

  // Rounded, and each pair of keys the odd one first; the sum is of the unrounded weights in key order.
  static void PairedWeights(float* p, int keys, const Exp2<V>* weight, F* sum) {
    for (int c = 0; c < kVectors; ++c) {
      const Exp2<V> exp2 = weight[c];
      F l = sum[c];
      for (int k = 0; k < keys; k += 2) {
        float* even = p + k * kLanes + c * kN;
        float* odd = even + kLanes;
        const F x = exp2(V::Load(even)), y = exp2(V::Load(odd));
        l = V::Add(V::Add(l, x), y);
        V::Store(even, RoundToBf16<V>(y));
        V::Store(odd, RoundToBf16<V>(x));
      }
      sum[c] = l;
    }
  }

  // Accumulate for values that are not all finite: a masked key must not meet even a weight of zero.
  [[gnu::noinline]] static void AccumulateVisible(const StripBlock& a, int first_key, int keys) {
    for (int d = 0; d < a.head_dim; ++d) {
      const float* values = a.values + (d / kRows) * kValueGroup + d % kRows;
      for (int c = 0; c < kVectors; ++c) {
        float* o = a.partial + d * kLanes + c * kN;
        F acc = V::Load(o);
        for (int k = first_key; k < first_key + keys; ++k) {
          const F sum = V::Fma(V::Load(a.scores + k * kLanes + c * kN), V::Set(values[k * kRows]), acc);
          acc = V::Select(Visible(a, a.paired ? k ^ 1 : k, c), sum, acc);
        }
        V::Store(o, acc);
      }
    }
  }
};

}  // namespace
}  // namespace rondo::attention
