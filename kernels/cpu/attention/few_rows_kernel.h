// A few query rows (decode): keys in lanes for the scores, head_dim in lanes for the values, the heads of a group
// sharing every load. Same operations on every element, in the same order, as the strip kernel, so the same bits. Used
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

template <typename V>
struct FewRowsKernel {
  using F = typename V::F;
  static constexpr int kN = V::kLanes;
  static constexpr int kKeys = 32;  // a group of keys: transposed together, in 8 or 16 KiB of L1
  static constexpr int kTokens = 256;
  static constexpr int kLine = 64;  // bytes of a cache line

  // Heads done together, and the vectors of keys done with each. Two products a cycle with a latency of four want eight
  // accumulators or more; more than twelve of AVX2's sixteen registers they cannot have.
  static constexpr int Heads(int left) { return left == 4 || left > 6 ? 4 : left > 3 ? 3 : left; }
  static constexpr int Vectors(int heads) { return heads == 4 ? 2 : 4; }

  // Scores of every (row, head), then one transposed group of keys.
  static size_t Scratch(int rows, int group, int head_dim) {
    return static_cast<size_t>(rows) * group * kTokens + static_cast<size_t>(Padded(head_dim)) * kKeys;
  }

  static void Block(const FewRowsBlock& a) {
    if (a.paired) {
      BlockOf<uint16_t>(a);
    } else {
      BlockOf<float>(a);
    }
  }

 private:
  // Transposed keys are written in squares of up to 2 kN rows.
  static int Padded(int head_dim) { return (head_dim + 2 * kN - 1) / (2 * kN) * (2 * kN); }

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
        for (int head = 0; head < a.group; head += Heads(a.group - head)) {
          const int pair = row * a.group + head;
          const float* q = a.q + static_cast<size_t>(pair) * a.head_dim;
          float* s = scores + static_cast<size_t>(pair) * kTokens + k;
          switch (Heads(a.group - head)) {
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
      for (int head = 0; head < a.group; head += Heads(a.group - head)) {
        const int pair = row * a.group + head;
        float* p = scores + static_cast<size_t>(pair) * kTokens;
        switch (Heads(a.group - head)) {
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

  // Bytes [from, from + bytes) into the first level of cache (3) or the second (2).
  template <int kLevel>
  RONDO_SIMD void Fetch(const void* from, size_t bytes) {
    const char* lines = static_cast<const char*>(from);
    for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(lines + i, 0, kLevel);
  }

  // Lane j of x[i] <- float i of row j, rows `stride` floats apart.
  RONDO_SIMD void LoadTransposed(const float* rows, size_t stride, F (&x)[kN]) {
    if constexpr (requires { V::LoadTransposed(rows, stride, x); }) {
      V::LoadTransposed(rows, stride, x);
    } else {
      for (int i = 0; i < kN; ++i) x[i] = V::Load(rows + static_cast<size_t>(i) * stride);
      V::Transpose(x);
    }
  }

  // Squares of the keys, whole: kN keys and the d that fill a vector's bytes. Returns how many d it wrote.
  RONDO_SIMD int TransposeSquare(const float* rows, int head_dim, float* keys) {
    F x[kN];
    LoadTransposed(rows, static_cast<size_t>(head_dim), x);
    for (int i = 0; i < kN; ++i) V::Store(keys + i * kKeys, x[i]);
    return kN;
  }
  // Two bf16 travel as one float, so half the shuffles do; head_dim is even.
  RONDO_SIMD int TransposeSquare(const uint16_t* rows, int head_dim, float* keys) {
    F x[kN];
    LoadTransposed(reinterpret_cast<const float*>(rows), static_cast<size_t>(head_dim) / 2, x);
    for (int i = 0; i < kN; ++i) {
      const typename V::I both = V::AsInt(x[i]);
      V::Store(keys + 2 * i * kKeys, V::AsFloat(V::template ShiftLeft<16>(both)));
      V::Store(keys + (2 * i + 1) * kKeys, V::AsFloat(V::AndI(both, V::SetI(-65536))));
    }
    return 2 * kN;
  }

  // keys [head_dim][kKeys] <- rows [first, first + kKeys) of the block, +0 for rows past its tokens.
  template <typename T>
  static void TransposeKeys(const FewRowsBlock& a, int first, float* keys) {
    constexpr int kWhole = kN * 4 / sizeof(T);  // d of a square
    const bool even = sizeof(T) == 4 || a.head_dim % 2 == 0;
    for (int half = 0; half < kKeys; half += kN) {
      const size_t offset = static_cast<size_t>(first + half) * a.head_dim;
      const T* rows = reinterpret_cast<const T*>(a.keys) + offset;
      const T* values = reinterpret_cast<const T*>(a.values) + offset;
      // While keys are read the values of the same rows are fetched, and while values are read the keys of the next
      // block. In ascending order, line by line: the hardware then takes it for a stream and fetches further ahead
      // than these instructions could (twice the speed, on Zen 3). Prefetching past the end does no harm.
      Fetch<3>(rows + kN * a.head_dim, kN * a.head_dim * sizeof(T));
      Fetch<2>(values, kN * a.head_dim * sizeof(T));
      int d = 0;
      if (even && first + half + kN <= a.tokens) {
        while (d + kWhole <= a.head_dim) d += TransposeSquare(rows + d, a.head_dim, keys + d * kKeys + half);
      }
      for (; d < a.head_dim; d += kN) {
        F x[kN];
        for (int i = 0; i < kN; ++i) {
          const T* row = rows + static_cast<size_t>(i) * a.head_dim + d;
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
    constexpr int kGroup = kKeys / kN;
    constexpr int kVectors = Vectors(kCount) < kGroup ? Vectors(kCount) : kGroup;
    for (int v = 0; v < kGroup; v += kVectors, keys += kVectors * kN, scores += kVectors * kN) {
      F acc[kVectors][kCount];
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) {
#pragma GCC unroll 4
        for (int h = 0; h < kCount; ++h) acc[c][h] = V::Zero();
      }
      const auto step = [&](int d) __attribute__((always_inline)) {
        F w[kCount];
#pragma GCC unroll 4
        for (int h = 0; h < kCount; ++h) w[h] = V::Set(q[h * head_dim + d]);
#pragma GCC unroll 4
        for (int c = 0; c < kVectors; ++c) {
          const F x = V::Load(keys + d * kKeys + c * kN);
#pragma GCC unroll 4
          for (int h = 0; h < kCount; ++h) acc[c][h] = V::Fma(w[h], x, acc[c][h]);
        }
      };
      if (paired) {
        int d = 0;
        for (; d + 1 < head_dim; d += 2) step(d + 1), step(d);
        if (d < head_dim) step(d);
      } else {
        for (int d = 0; d < head_dim; ++d) step(d);
      }
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) {
#pragma GCC unroll 4
        for (int h = 0; h < kCount; ++h) V::Store(scores + h * kTokens + c * kN, acc[c][h]);
      }
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
    if (Transforms(a.score)) {
      for (int i = 0; i < kCount; ++i) Transform(a, row, pair - row * a.group + i, scores + i * kTokens, begin, end);
    }
    Weights<kCount, sizeof(T) == 2>(scores, begin, end, a.m + pair, a.l + pair);
    const T* values = reinterpret_cast<const T*>(a.values);
    // The first heads fetch the next block; the others fetch what is here anyway.
    const T* next = pair == 0 ? reinterpret_cast<const T*>(a.next_keys) : values;
    int d = 0;
    const auto columns = [&]<int kVectors, bool kPartial>(int width) {
      Values<kCount, kVectors, kPartial>(a.head_dim, scores, values + d, next + d * kTokens, begin, end, o + d, width);
      d += kVectors * kN;
    };
    if constexpr (kCount == 4) {
      while (a.head_dim - d >= 3 * kN && a.head_dim - d != 4 * kN) columns.template operator()<3, false>(0);
      while (a.head_dim - d >= 2 * kN) columns.template operator()<2, false>(0);
    } else {
      while (a.head_dim - d >= 4 * kN) columns.template operator()<4, false>(0);
    }
    while (a.head_dim - d >= kN) columns.template operator()<1, false>(0);
    if (d < a.head_dim) columns.template operator()<1, true>(a.head_dim - d);
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
  static void Weights(float* scores, int begin, int end, float* m_out, float* l_out) {
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

  // o [kCount heads][kVectors vectors] = p . values over the keys [begin, end); `width` lanes if kPartial. Fetches as
  // many bytes from `next` on as it reads.
  template <int kCount, int kVectors, bool kPartial, typename T>
  static void Values(int head_dim, const float* p, const T* values, const T* next, int begin, int end, float* o,
                     int width) {
    F acc[kVectors][kCount];
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) {
#pragma GCC unroll 4
      for (int h = 0; h < kCount; ++h) acc[c][h] = V::Zero();
    }
    const auto step = [&](int k) __attribute__((always_inline)) {
      const T* v = values + static_cast<size_t>(k) * head_dim;
      F w[kCount];
#pragma GCC unroll 4
      for (int h = 0; h < kCount; ++h) w[h] = V::Set(p[h * kTokens + k]);
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) {
        const F x = kPartial ? LoadPart(v, width) : LoadRow(v + c * kN);
#pragma GCC unroll 4
        for (int h = 0; h < kCount; ++h) acc[c][h] = V::Fma(w[h], x, acc[c][h]);
      }
    };
    constexpr int kElements = kVectors * kN;  // of next, fetched with each key
    int k = begin;
    if constexpr (sizeof(T) == 2) {
      if (k % 2 != 0) step(k++);
      for (; k + 1 < end; k += 2) {
        Fetch<2>(next + k * kElements, 2 * kElements * sizeof(T));
        step(k + 1), step(k);
      }
    }
    for (; k < end; ++k) {
      Fetch<2>(next + k * kElements, kElements * sizeof(T));
      step(k);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) {
#pragma GCC unroll 4
      for (int h = 0; h < kCount; ++h) {
        float* to = o + h * head_dim + c * kN;
        const F sum = V::Add(acc[c][h], V::Zero());
        if (kPartial) {
          V::StorePartial(to, sum, width);
        } else {
          V::Store(to, sum);
        }
      }
    }
  }
};

}  // namespace
}  // namespace rondo::attention
