// A few query rows (decode): keys in lanes for the scores, head_dim in lanes for the values, the heads of a group
// sharing every load. Same operations on every element, in the same order, as the strip kernel, so the same bits. Used
// by the ops_*.cc. Leaf code: no std, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/definition.h"
#include "kernels/cpu/attention/exp2.h"
#include "kernels/cpu/attention/ops.h"
#include "kernels/cpu/simd/scalar.h"

namespace rondo::attention {
namespace {

template <typename V>
struct FewRowsKernel {
  using F = typename V::F;
  using M = typename V::M;
  static constexpr int kN = V::kLanes;
  static constexpr int kKeys = 2 * kN;  // a group of keys: two vectors, to cover the latency of fma
  static constexpr int kTokens = 256;
  static constexpr int kPiece = 16;  // keys whose values are used between two visits of o
  static constexpr int kHeads = 4;   // heads done together: 4 x 2 accumulators

  // Scores of every (row, head), then one transposed group of keys.
  static size_t Scratch(int rows, int group, int head_dim) {
    const size_t padded = static_cast<size_t>(head_dim + kN - 1) / kN * kN;
    return static_cast<size_t>(rows) * group * kTokens + padded * kKeys;
  }

  static void Block(const FewRowsBlock& a) {
    if (a.paired) {
      BlockOf<uint16_t>(a);
    } else {
      BlockOf<float>(a);
    }
  }

 private:
  template <typename T>
  static void BlockOf(const FewRowsBlock& a) {
    float* scores = a.scratch;
    float* keys = a.scratch + static_cast<size_t>(a.rows) * a.group * kTokens;
    int begin = kTokens, end = 0;
    for (int row = 0; row < a.rows; ++row) {
      if (a.first[row] >= a.last[row]) continue;
      begin = a.first[row] < begin ? a.first[row] : begin;
      end = a.last[row] > end ? a.last[row] : end;
    }
    for (int k = begin / kKeys * kKeys; k < end; k += kKeys) {
      TransposeKeys<T>(a, k, keys);
      for (int row = 0; row < a.rows; ++row) {
        if (k + kKeys <= a.first[row] || k >= a.last[row]) continue;
        for (int head = 0; head < a.group; head += kHeads) {
          const int pair = row * a.group + head;
          const float* q = a.q + static_cast<size_t>(pair) * a.head_dim;
          float* s = scores + static_cast<size_t>(pair) * kTokens + k;
          switch (a.group - head) {
            case 1:
              Scores<1>(q, keys, a.head_dim, a.paired, s);
              break;
            case 2:
              Scores<2>(q, keys, a.head_dim, a.paired, s);
              break;
            case 3:
              Scores<3>(q, keys, a.head_dim, a.paired, s);
              break;
            default:
              Scores<4>(q, keys, a.head_dim, a.paired, s);
              break;
          }
        }
      }
    }
    for (int row = 0; row < a.rows; ++row) {
      for (int head = 0; head < a.group; head += kHeads) {
        const int pair = row * a.group + head;
        float* p = scores + static_cast<size_t>(pair) * kTokens;
        switch (a.group - head) {
          case 1:
            Finish<1, T>(a, row, pair, p);
            break;
          case 2:
            Finish<2, T>(a, row, pair, p);
            break;
          case 3:
            Finish<3, T>(a, row, pair, p);
            break;
          default:
            Finish<4, T>(a, row, pair, p);
            break;
        }
      }
    }
  }

  RONDO_SIMD float Widen(float x) { return x; }
  RONDO_SIMD float Widen(uint16_t x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16); }
  RONDO_SIMD F LoadRow(const float* p) { return V::Load(p); }
  RONDO_SIMD F LoadRow(const uint16_t* p) { return V::LoadBf16(p); }
  RONDO_SIMD F LoadPart(const float* p, int n) { return V::LoadPartial(p, n); }
  RONDO_SIMD F LoadPart(const uint16_t* p, int n) {
    float x[kN];
    for (int i = 0; i < kN; ++i) x[i] = i < n ? Widen(p[i]) : 0.0f;
    return V::Load(x);
  }

  // keys [head_dim][kKeys] <- rows [first, first + kKeys) of the block, +0 for rows past its tokens.
  template <typename T>
  static void TransposeKeys(const FewRowsBlock& a, int first, float* keys) {
    const T* rows = reinterpret_cast<const T*>(a.keys) + static_cast<size_t>(first) * a.head_dim;
    const T* values = reinterpret_cast<const T*>(a.values) + static_cast<size_t>(first) * a.head_dim;
    for (int half = 0; half < kKeys; half += kN) {
      for (int d = 0; d < a.head_dim; d += kN) {
        F x[kN];
        for (int i = 0; i < kN; ++i) {
          const T* row = rows + static_cast<size_t>(half + i) * a.head_dim + d;
          // While keys are read the values of the same rows are fetched, and while values are read the keys of the
          // next block: rows are taken 32 or 64 bytes at a time, which the hardware does not see as a stream.
          // Prefetching past the end does no harm.
          __builtin_prefetch(values + static_cast<size_t>(half + i) * a.head_dim + d, 0, 2);
          __builtin_prefetch(row + kKeys * a.head_dim);
          if (first + half + i >= a.tokens) {
            x[i] = V::Zero();
          } else if (a.head_dim - d < kN) {
            x[i] = LoadPart(row, a.head_dim - d);
          } else {
            x[i] = LoadRow(row);
          }
        }
        V::Transpose(x);
        for (int i = 0; i < kN; ++i) V::Store(keys + (d + i) * kKeys + half, x[i]);
      }
    }
  }

  template <int kCount>
  static void Scores(const float* q, const float* keys, int head_dim, bool paired, float* scores) {
    F acc[kCount][2];
#pragma GCC unroll 4
    for (int h = 0; h < kCount; ++h) acc[h][0] = acc[h][1] = V::Zero();
    const auto step = [&](int d) {
      const F k0 = V::Load(keys + d * kKeys), k1 = V::Load(keys + d * kKeys + kN);
#pragma GCC unroll 4
      for (int h = 0; h < kCount; ++h) {
        const F x = V::Set(q[h * head_dim + d]);
        acc[h][0] = V::Fma(x, k0, acc[h][0]);
        acc[h][1] = V::Fma(x, k1, acc[h][1]);
      }
    };
    if (paired) {
      for (int d = 0; d < head_dim; d += 2) {
        if (d + 1 < head_dim) step(d + 1);
        step(d);
      }
    } else {
      for (int d = 0; d < head_dim; ++d) step(d);
    }
#pragma GCC unroll 4
    for (int h = 0; h < kCount; ++h) {
      V::Store(scores + h * kTokens, acc[h][0]);
      V::Store(scores + h * kTokens + kN, acc[h][1]);
    }
  }

  // From scores to (m, l, o) for kCount heads of one row, which see the same keys.
  template <int kCount, typename T>
  static void Finish(const FewRowsBlock& a, int row, int pair, float* scores) {
    const int begin = a.first[row], end = a.last[row];
    float* o = a.o + static_cast<size_t>(pair) * a.head_dim;
    if (begin >= end) {
      for (int i = 0; i < kCount; ++i) a.m[pair + i] = -1048576.0f, a.l[pair + i] = 0;  // kEmptyMax
      for (int i = 0; i < kCount * a.head_dim; ++i) o[i] = 0;
      return;
    }
    for (int h = 0; h < kCount; ++h) a.m[pair + h] = Weights(scores + h * kTokens, begin, end);
    float l[kCount] = {};
    for (int k = begin; k < end; ++k) {
      for (int h = 0; h < kCount; ++h) l[h] += scores[h * kTokens + k];
    }
    for (int h = 0; h < kCount; ++h) {
      a.l[pair + h] = l[h];
      if (!a.paired) continue;
      float* p = scores + h * kTokens;
      for (int k = begin / kN * kN; k < end; k += kN) V::Store(p + k, RoundToBf16<V>(V::Load(p + k)));
    }
    // Sixteen keys at a time, so that o goes to memory and back only so often; the values' pages are walked in order.
    const T* values = reinterpret_cast<const T*>(a.values);
    const T* next = reinterpret_cast<const T*>(a.next_keys);
    for (int i = 0; i < kCount * a.head_dim; ++i) o[i] = 0;
    for (int k = begin / kPiece * kPiece; k < end; k += kPiece) {
      int order[kPiece];  // the keys of this piece that are visible, in the order of the definition
      int count = 0;
      for (int i = 0; i < kPiece; ++i) {
        const int key = a.paired ? (k + i) ^ 1 : k + i;
        if (key >= begin && key < end) order[count++] = key;
      }
      int d = 0;
      for (; d + 2 * kN <= a.head_dim; d += 2 * kN)
        Values<kCount, 2, false>(a.head_dim, scores, values + d, next + d, order, count, o + d, 0);
      for (; d + kN <= a.head_dim; d += kN)
        Values<kCount, 1, false>(a.head_dim, scores, values + d, next + d, order, count, o + d, 0);
      if (d < a.head_dim)
        Values<kCount, 1, true>(a.head_dim, scores, values + d, next + d, order, count, o + d, a.head_dim - d);
    }
    for (int i = 0; i < kCount * a.head_dim; ++i) o[i] += 0.0f;
  }

  // Turns scores [begin, end) into weights and returns m.
  static float Weights(float* s, int begin, int end) {
    const auto visible = [&](int k) {
      const typename V::I key = V::AddI(V::Iota(), V::SetI(k));
      return V::And(V::LessI(V::SetI(begin - 1), key), V::LessI(key, V::SetI(end)));
    };
    const int from = begin / kN * kN;
    F top = V::Set(-__builtin_inff());
    for (int k = from; k < end; k += kN) {
      top = V::Max(V::Select(visible(k), V::Load(s + k), V::Set(-__builtin_inff())), top);
    }
    float lane[kN];
    V::Store(lane, top);
    float max = lane[0];
    for (int i = 1; i < kN; ++i) max = lane[i] > max ? lane[i] : max;
    top = V::Set(max);
    if (V::Any(NeedsClamp<V>(top))) {
      for (int k = from; k < end; k += kN) V::Store(s + k, Clamp<V>(V::Load(s + k)));
    }
    const F m = IntegerMax<V>(top);
    const Exp2<V> exp2 = Exp2<V>::For(m);
    for (int k = from; k < end; k += kN) V::Store(s + k, V::Select(visible(k), exp2(V::Load(s + k)), V::Zero()));
    V::Store(lane, m);
    return lane[0];
  }

  // o [kCount heads][kVectors vectors] += p . values over the keys in `order`; `width` lanes if kPartial.
  template <int kCount, int kVectors, bool kPartial, typename T>
  RONDO_SIMD void Values(int head_dim, const float* p, const T* values, const T* next, const int* order, int count,
                         float* o, int width) {
    F acc[kCount][kVectors];
#pragma GCC unroll 4
    for (int h = 0; h < kCount; ++h) {
#pragma GCC unroll 2
      for (int c = 0; c < kVectors; ++c) {
        const float* from = o + h * head_dim + c * kN;
        acc[h][c] = kPartial ? V::LoadPartial(from, width) : V::Load(from);
      }
    }
    for (int i = 0; i < count; ++i) {
      const T* v = values + static_cast<size_t>(order[i]) * head_dim;
      __builtin_prefetch(v + kPiece * head_dim);  // the same values of the next piece
      __builtin_prefetch(next + static_cast<size_t>(order[i]) * head_dim, 0, 2);
      F x[kVectors];
#pragma GCC unroll 2
      for (int c = 0; c < kVectors; ++c) x[c] = kPartial ? LoadPart(v, width) : LoadRow(v + c * kN);
#pragma GCC unroll 4
      for (int h = 0; h < kCount; ++h) {
        const F w = V::Set(p[h * kTokens + order[i]]);
#pragma GCC unroll 2
        for (int c = 0; c < kVectors; ++c) acc[h][c] = V::Fma(w, x[c], acc[h][c]);
      }
    }
#pragma GCC unroll 4
    for (int h = 0; h < kCount; ++h) {
#pragma GCC unroll 2
      for (int c = 0; c < kVectors; ++c) {
        float* to = o + h * head_dim + c * kN;
        if (kPartial) {
          V::StorePartial(to, acc[h][c], width);
        } else {
          V::Store(to, acc[h][c]);
        }
      }
    }
  }
};

}  // namespace
}  // namespace rondo::attention
