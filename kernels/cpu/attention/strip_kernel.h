// Many query rows: queries in lanes, a strip of them against one block, over a vector type and a register tile; used
// by the ops_*.cc. Leaf code: no std, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/definition.h"
#include "kernels/cpu/attention/exp2.h"
#include "kernels/cpu/attention/ops.h"
#include "kernels/cpu/attention/pack_kernel.h"
#include "kernels/cpu/attention/transform.h"
#include "kernels/cpu/simd/scalar.h"

namespace rondo::attention {
namespace {

template <typename V, typename Tile>
struct StripKernel {
  using F = typename V::F;
  using M = typename V::M;
  static constexpr int kN = V::kLanes;
  static constexpr int kLanes = Tile::kLanes;
  static constexpr int kVectors = kLanes / kN;
  static constexpr int kRows = Tile::kRows;
  using Layout = PackKernel<V, Tile>;
  static constexpr int kPiece = Layout::kPiece;

  static int Padded(int head_dim) { return Layout::Padded(head_dim); }

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
    const bool masked = begin < a.first[kLanes - 1] || end > a.last[0];
    for (int k = begin, next; k < end; k = next) {
      next = (k / kPiece + 1) * kPiece < end ? (k / kPiece + 1) * kPiece : end;
      float* p = a.scores + k * kLanes;
      if (a.paired) {
        PairedWeights(p, next - k, weight, sum);
      } else {
        Weights(p, next - k, weight, sum);
      }
      if (masked && !a.values_finite) {
        AccumulateVisible(a, k, next, k == begin, next == end);
      } else if (k == begin && next == end) {
        Accumulate<true, true>(a, k, next);
      } else if constexpr (kPiece < 256) {
        k == begin   ? Accumulate<true, false>(a, k, next)
        : next < end ? Accumulate<false, false>(a, k, next)
                     : Accumulate<false, true>(a, k, next);
      }
    }
    for (int c = 0; c < kVectors; ++c) V::Store(l + c * kN, sum[c]);
  }

  static void Merge(float* left, const float* right, int head_dim) {
    const int o_size = Padded(head_dim) * kLanes;
    F wa[kVectors], wb[kVectors];
    M a_empty[kVectors], b_empty[kVectors];
    const auto pick = [&](int c, F x, F y, F both) { return V::Select(a_empty[c], y, V::Select(b_empty[c], x, both)); };
    const auto join = [&](int c, F x, F y) { return V::Fma(x, wa[c], V::Mul(y, wb[c])); };
    bool any_empty = false;
    for (int c = 0; c < kVectors; ++c) {
      float *lm = left + o_size + c * kN, *ll = lm + kLanes;
      const float *rm = right + o_size + c * kN, *rl = rm + kLanes;
      const F a = V::Load(ll), b = V::Load(rl), ma = V::Load(lm), mb = V::Load(rm);
      a_empty[c] = V::Equal(a, V::Zero()), b_empty[c] = V::Equal(b, V::Zero());
      any_empty |= V::Any(V::Or(a_empty[c], b_empty[c]));
      const F top = V::Max(ma, mb);
      wa[c] = PowerOfTwo<V>(V::Sub(ma, top)), wb[c] = PowerOfTwo<V>(V::Sub(mb, top));
      V::Store(lm, pick(c, ma, mb, top));
      V::Store(ll, pick(c, a, b, join(c, a, b)));
    }
    // Line after line, all lanes: the partials are as large as L1.
    for (int i = 0; i < o_size; i += kLanes) {
#pragma GCC unroll 3
      for (int c = 0; c < kVectors; ++c) {
        const F x = V::Load(left + i + c * kN), y = V::Load(right + i + c * kN);
        const F both = join(c, x, y);
        V::Store(left + i + c * kN, any_empty ? pick(c, x, y, both) : both);
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

  // Four vectors side by side: one exponential alone waits most of the time for itself.
  static void Weights(float* p, int keys, const Exp2<V>* weight, F* sum) {
    for (int c = 0; c < kVectors; ++c) {
      const Exp2<V> exp2 = weight[c];
      F l = sum[c];
      for (int k = 0; k < keys; k += 4) {
        float* at = p + k * kLanes + c * kN;
        F x[4] = {V::Load(at), V::Load(at + kLanes), V::Load(at + 2 * kLanes), V::Load(at + 3 * kLanes)};
        exp2.Four(x);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          l = V::Add(l, x[i]);
          V::Store(at + i * kLanes, x[i]);
        }
      }
      sum[c] = l;
    }
  }

  // Rounded, and each pair of keys the odd one first; the sum is of the unrounded weights in key order.
  static void PairedWeights(float* p, int keys, const Exp2<V>* weight, F* sum) {
    for (int c = 0; c < kVectors; ++c) {
      const Exp2<V> exp2 = weight[c];
      F l = sum[c];
      for (int k = 0; k < keys; k += 4) {
        float* at = p + k * kLanes + c * kN;
        F x[4] = {V::Load(at), V::Load(at + kLanes), V::Load(at + 2 * kLanes), V::Load(at + 3 * kLanes)};
        exp2.Four(x);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) l = V::Add(l, x[i]);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) V::Store(at + (i ^ 1) * kLanes, RoundWeightToBf16<V>(x[i]));
      }
      sum[c] = l;
    }
  }

  // o of the keys [begin, end) of one piece.
  template <bool kFirst, bool kLast>
  static void Accumulate(const StripBlock& a, int begin, int end) {
    const float* values = a.values + Layout::ValueOffset(begin, a.head_dim);
    const int padded = Padded(a.head_dim);
    for (int d = 0; d < padded; d += kRows, values += Layout::kValueGroup) {
      Tile::template Accumulate<kFirst, kLast>(a.scores + begin * kLanes, values, end - begin, a.partial + d * kLanes);
    }
  }

  // Accumulate for values that are not all finite: a masked key must not meet even a weight of zero.
  [[gnu::noinline]] static void AccumulateVisible(const StripBlock& a, int begin, int end, bool first, bool last) {
    for (int d = 0; d < a.head_dim; ++d) {
      const float* values =
          a.values + Layout::ValueOffset(begin, a.head_dim) + (d / kRows) * Layout::kValueGroup + d % kRows;
      for (int c = 0; c < kVectors; ++c) {
        float* o = a.partial + d * kLanes + c * kN;
        F acc = first ? V::Zero() : V::Load(o);
        for (int k = begin; k < end; ++k) {
          const F value = V::Set(values[(k - begin) * kRows]);
          const F sum = V::Fma(V::Load(a.scores + k * kLanes + c * kN), value, acc);
          acc = V::Select(Visible(a, a.paired ? k ^ 1 : k, c), sum, acc);
        }
        V::Store(o, last ? V::Add(acc, V::Zero()) : acc);
      }
    }
  }
};

}  // namespace
}  // namespace rondo::attention
