// Merge and finish of partials that lie row by row, head_dim in lanes; used by the ops_*.cc. Leaf code.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/definition.h"
#include "kernels/cpu/attention/exp2.h"
#include "kernels/cpu/simd/scalar.h"

namespace rondo::attention {
namespace {

template <typename V>
struct RowKernel {
  using F = typename V::F;
  using M = typename V::M;
  static constexpr int kN = V::kLanes;

  static void Merge(int64_t count, int head_dim, float* o, float* m, float* l, const float* right_o,
                    const float* right_m, const float* right_l) {
    for (int64_t i = 0; i < count; ++i, o += head_dim, right_o += head_dim) {
      if (right_l[i] == 0) continue;
      if (l[i] == 0) {
        m[i] = right_m[i];
        l[i] = right_l[i];
        __builtin_memcpy(o, right_o, static_cast<size_t>(head_dim) * sizeof(float));
        continue;
      }
      const float top = m[i] > right_m[i] ? m[i] : right_m[i];
      const F a = PowerOfTwo<V>(V::Set(m[i] - top)), b = PowerOfTwo<V>(V::Set(right_m[i] - top));
      m[i] = top;
      V::StorePartial(l + i, V::Fma(V::Set(l[i]), a, V::Mul(V::Set(right_l[i]), b)), 1);
      int d = 0;
      for (; d + kN <= head_dim; d += kN) {
        V::Store(o + d, V::Fma(V::Load(o + d), a, V::Mul(V::Load(right_o + d), b)));
      }
      if (const int n = head_dim - d; n > 0) {
        const F x = V::LoadPartial(o + d, n), y = V::LoadPartial(right_o + d, n);
        V::StorePartial(o + d, V::Fma(x, a, V::Mul(y, b)), n);
      }
    }
  }

  static void MergeSinks(int64_t count, const float* sinks, float* m, float* l, float* weight) {
    for (int64_t i = 0; i < count; i += kN) {
      const F sink = Clamp<V>(V::Load(sinks + i));
      const F sink_m = IntegerMax<V>(sink), sink_l = Exp2<V>::For(sink_m)(sink);
      const F own_m = V::Load(m + i), own_l = V::Load(l + i);
      const M empty = V::Equal(own_l, V::Zero());
      const F top = V::Max(own_m, sink_m);
      const F a = PowerOfTwo<V>(V::Sub(own_m, top)), b = PowerOfTwo<V>(V::Sub(sink_m, top));
      V::Store(m + i, V::Select(empty, sink_m, top));
      V::Store(l + i, V::Select(empty, sink_l, V::Fma(own_l, a, V::Mul(sink_l, b))));
      V::Store(weight + i, V::Select(empty, V::Zero(), a));
    }
  }

  static void Finish(int64_t count, int head_dim, const float* o, const float* l, const float* weight, float* out) {
    const F nan = V::AsFloat(V::SetI(static_cast<int32_t>(kNaN)));
    for (int64_t i = 0; i < count; ++i, o += head_dim, out += head_dim) {
      if (l[i] == 0) {
        for (int d = 0; d < head_dim; ++d) out[d] = 0;
        continue;
      }
      const F inverse = V::Set(1.0f / l[i]);
      const F own = V::Set(weight == nullptr ? 1.0f : weight[i]);  // times 1 changes no bit that comes out
      const auto finish = [&](F x) {
        x = V::Mul(x, own);
        x = V::Add(V::Mul(x, inverse), V::Zero());
        return V::Select(V::Equal(x, x), x, nan);
      };
      int d = 0;
      for (; d + kN <= head_dim; d += kN) V::Store(out + d, finish(V::Load(o + d)));
      if (const int n = head_dim - d; n > 0) V::StorePartial(out + d, finish(V::LoadPartial(o + d, n)), n);
    }
  }
};

}  // namespace
}  // namespace rondo::attention
