// A few query rows (decode): keys in lanes for the scores, head_dim in lanes for the values, the heads of a group
// sharing every load. Same operations on every element, in the same order, as the strip kernel, so the same bits. Used
// by the ops_*.cc. Leaf code: no std, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/definition.h"
#include "kernels/cpu/attention/exp2.h"
#include "kernels/cpu/attention/few_rows_keys.h"
#include "kernels/cpu/attention/few_rows_values.h"
#include "kernels/cpu/attention/ops.h"
#include "kernels/cpu/attention/transform.h"
#include "kernels/cpu/simd/scalar.h"

namespace rondo::attention {
namespace {

template <typename V>
struct FewRowsKernel {
  using F = typename V::F;
  static constexpr int kN = V::kLanes;
  static constexpr int kTokens = 256;
  static constexpr int kTileBytes = 16 * 1024;  // of values: half of L1, so that all columns find them there
  static constexpr size_t kAheadBytes = 16 * 1024;

  // Heads done together.
  static constexpr int Heads(int left) { return left == 4 || left > 6 ? 4 : left > 3 ? 3 : left; }

  // Scores of every (row, head), then one transposed group of keys.
  static size_t Scratch(int rows, int group, int head_dim) {
    return static_cast<size_t>(rows) * group * kTokens + FewRowsKeys<V, float>::Size(head_dim);
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
    Scores<T>(a);
    for (int row = 0; row < a.rows; ++row) {
      ForHeads(
          a, row, [&]<int kCount>(int pair) __attribute__((always_inline)) {
            if (a.first[row] >= a.last[row]) {
              Nothing<kCount>(a, pair);
            } else {
              if (Transforms(a.score)) {
                for (int i = 0; i < kCount; ++i) {
                  Transform(a, row, pair - row * a.group + i, a.scratch + static_cast<size_t>(pair + i) * kTokens,
                            a.first[row], a.last[row]);
                }
              }
              Weights<kCount, sizeof(T) == 2>(a.scratch + static_cast<size_t>(pair) * kTokens, a.first[row],
                                              a.last[row], a.m + pair, a.l + pair);
            }
          });
    }
    Values<T>(a);
  }

  // What to fetch while row `row` is read: the row kAheadBytes further on, of `now` or of what is read after it. A
  // block further on, as L2 would allow, is slower: with 128 KiB of keys of a head most of it is evicted before its
  // turn.
  RONDO_SIMD const std::byte* Ahead(const std::byte* now, const std::byte* then, int row, size_t row_bytes) {
    const size_t at = static_cast<size_t>(row) * row_bytes + kAheadBytes, all = kTokens * row_bytes;
    return at < all ? now + at : then + (at - all);
  }

  // Calls work<count>(pair) for the heads of a row, some at a time.
  template <typename Work>
  RONDO_SIMD void ForHeads(const FewRowsBlock& a, int row, const Work& work) {
    for (int head = 0; head < a.group; head += Heads(a.group - head)) {
      const int pair = row * a.group + head;
      switch (Heads(a.group - head)) {
        case 1:
          work.template operator()<1>(pair);
          break;
        case 2:
          work.template operator()<2>(pair);
          break;
        case 3:
          work.template operator()<3>(pair);
          break;
        default:
          work.template operator()<4>(pair);
          break;
      }
    }
  }

  template <typename T>
  static void Scores(const FewRowsBlock& a) {
    using Keys = FewRowsKeys<V, T>;
    const size_t row_bytes = a.head_dim * sizeof(T);
    float* keys = a.scratch + static_cast<size_t>(a.rows) * a.group * kTokens;
    int begin = kTokens, end = 0;
    for (int row = 0; row < a.rows; ++row) {
      if (a.first[row] >= a.last[row]) continue;
      begin = a.first[row] < begin ? a.first[row] : begin;
      end = a.last[row] > end ? a.last[row] : end;
    }
    for (int k = begin / Keys::kKeys * Keys::kKeys; k < end; k += Keys::kKeys) {
      Keys::Transpose(reinterpret_cast<const T*>(a.keys), a.head_dim, a.tokens, k, keys);
      for (int row = 0; row < a.rows; ++row) {
        if (k + Keys::kKeys <= a.first[row] || k >= a.last[row]) continue;
        ForHeads(
            a, row, [&]<int kCount>(int pair) __attribute__((always_inline)) {
              Keys::template Scores<kCount>(a.q + static_cast<size_t>(pair) * a.head_dim, keys, a.head_dim,
                                            a.scratch + static_cast<size_t>(pair) * kTokens + k, kTokens,
                                            Ahead(a.keys, a.values, k, row_bytes));
            });
      }
    }
  }

  template <typename T>
  static void Values(const FewRowsBlock& a) {
    const T* values = reinterpret_cast<const T*>(a.values);
    const size_t row_bytes = a.head_dim * sizeof(T);
    const int tile = kTileBytes / static_cast<int>(row_bytes) / 2 * 2;
    for (int k = 0; k < kTokens; k += tile) {
      for (int row = 0; row < a.rows; ++row) {
        const int first = a.first[row] > k ? a.first[row] : k;
        const int last = a.last[row] < k + tile ? a.last[row] : k + tile;
        if (first >= last) continue;
        ForHeads(
            a, row, [&]<int kCount>(int pair) __attribute__((always_inline)) {
              FewRowsValues<V, T>::template Add<kCount>(
                  a.scratch + static_cast<size_t>(pair) * kTokens, kTokens, values, a.head_dim,
                  {first, last, first == a.first[row],
                   // The first heads fetch for all; what the others ask for is there already.
                   Ahead(a.values, pair == 0 ? a.next_keys : a.values, first, row_bytes), last == a.last[row]},
                  a.o + static_cast<size_t>(pair) * a.head_dim);
            });
      }
    }
  }

  // The identity, for heads of a row that sees no key.
  template <int kCount>
  static void Nothing(const FewRowsBlock& a, int pair) {
    for (int i = 0; i < kCount; ++i) a.m[pair + i] = -1048576.0f, a.l[pair + i] = 0;  // kEmptyMax
    float* o = a.o + static_cast<size_t>(pair) * a.head_dim;
    for (int i = 0; i < kCount * a.head_dim; ++i) o[i] = 0;
  }

  // Soft cap and bias of one head's scores. What lies around [begin, end) is hidden afterwards.
  [[gnu::noinline]] static void Transform(const FewRowsBlock& a, int row, int head, float* s, int begin, int end) {
    const F cap = V::Set(a.score.cap), rate = V::Set(a.score.cap_rate);
    const F slope = V::Set(a.score.slopes != nullptr ? a.score.slopes[head] : 0.0f);
    const int distance = a.score.slopes != nullptr ? a.distance[row] : 0;
    for (int k = begin / kN * kN; k < end; k += kN) {
      F x = V::Load(s + k);
      if (a.score.cap != 0) x = SoftCap<V>(x, cap, rate);
      if (a.score.slopes != nullptr) x = Bias<V>(x, slope, V::SubI(V::SetI(distance - k), V::Iota()));
      V::Store(s + k, x);
    }
  }

  // Lanes of the first and last vector that are not in [begin, end): no score.
  static void Hide(float* s, int begin, int end) {
    for (int k = begin / kN * kN; k < begin; ++k) s[k] = -__builtin_inff();
    for (int k = end; k % kN != 0; ++k) s[k] = -__builtin_inff();
  }

  // Turns the scores [begin, end) of kCount heads into weights, +0 in the rest of the vectors they lie in.
  template <int kCount, bool kPaired>
  [[gnu::noinline]] static void Weights(float* scores, int begin, int end, float* m_out, float* l_out) {
    const int from = begin / kN * kN;
    F m[kCount];
    for (int h = 0; h < kCount; ++h) {
      float* s = scores + h * kTokens;
      Hide(s, begin, end);
      F top = V::Set(-__builtin_inff());
      for (int k = from; k < end; k += kN) top = V::Max(V::Load(s + k), top);
      float lane[kN];
      V::Store(lane, top);
      float max = lane[0];
      for (int i = 1; i < kN; ++i) max = lane[i] > max ? lane[i] : max;
      top = V::Set(max);
      if (V::Any(NeedsClamp<V>(top))) {
        for (int k = from; k < end; k += kN) V::Store(s + k, Clamp<V>(V::Load(s + k)));
        Hide(s, begin, end);
      }
      m[h] = IntegerMax<V>(top);
      V::Store(lane, m[h]);
      m_out[h] = lane[0];
    }
    // Sums in key order are slow for one head. Side by side, and while the exponentials of the next keys are computed,
    // they cost little. A hidden key has p = +0, which changes no sum.
    float l[kCount] = {};
    for (int k = from; k < end; k += kN) {
      float p[kCount][kN];
#pragma GCC unroll 4
      for (int h = 0; h < kCount; ++h) {
        float* s = scores + h * kTokens + k;
        const F x = Exp2<V>::For(m[h])(V::Load(s));
        V::Store(p[h], x);
        V::Store(s, kPaired ? RoundToBf16<V>(x) : x);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kN; ++i) {
#pragma GCC unroll 4
        for (int h = 0; h < kCount; ++h) l[h] += p[h][i];
      }
    }
    for (int h = 0; h < kCount; ++h) l_out[h] = l[h];
  }
};

}  // namespace
}  // namespace rondo::attention
