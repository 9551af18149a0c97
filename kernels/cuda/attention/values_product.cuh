// o += P V for the rows of a warp: P from the lanes' probabilities, V from shared memory. Used by AttendTile.
#pragma once

#include "kernels/cuda/attention/attend_config.h"
#include "kernels/cuda/attention/scores.cuh"
#include "kernels/cuda/attention/shared_rows.cuh"

namespace rondo::cuda {

template <class C>
struct ValuesProduct {
  static constexpr int D = C::kValueDim;
  using Rows = SharedRows<D>;
  using Element = typename C::Element;
  using Probabilities = float[C::kWarpTiles][kKeyTile / 8][4];
  using Sums = float[C::kWarpTiles][D / 8][4];

  // Two accumulator tiles side by side are one A operand: rows lane / 4 and + 8, keys 2 * (lane % 4) and + 8.
  RONDO_DEVICE static void PackProbabilities(const float (&p)[kKeyTile / 8][4], int step, uint32_t (&a)[4]) {
    a[0] = gpu::Pack<Element>(p[2 * step][0], p[2 * step][1]);
    a[1] = gpu::Pack<Element>(p[2 * step][2], p[2 * step][3]);
    a[2] = gpu::Pack<Element>(p[2 * step + 1][0], p[2 * step + 1][1]);
    a[3] = gpu::Pack<Element>(p[2 * step + 1][2], p[2 * step + 1][3]);
  }

  // Keys step * 16 + [0, 16) of columns pair * 16 + [0, 16): v[0], v[1] the first eight columns, v[2], v[3] the others.
  RONDO_DEVICE static void LoadValuePair(gpu::Shared shared_v, int step, int pair, uint32_t (&v)[4]) {
    const int lane = gpu::LaneIndex();
    gpu::LoadMatrix4Transposed(v, Rows::At(shared_v, step * 16 + lane % 16, 2 * pair + lane / 16));
  }

  RONDO_DEVICE static void Multiply(const Probabilities& p, gpu::Shared shared_v, Sums* o) {
    RONDO_UNROLL
    for (int step = 0; step < kKeyTile / 16; ++step) {
      uint32_t a[C::kWarpTiles][4];
      RONDO_UNROLL
      for (int i = 0; i < C::kWarpTiles; ++i) PackProbabilities(p[i], step, a[i]);
      RONDO_UNROLL
      for (int pair = 0; pair < D / 16; ++pair) {
        uint32_t v[4];
        LoadValuePair(shared_v, step, pair, v);
        RONDO_UNROLL
        for (int i = 0; i < C::kWarpTiles; ++i) {
          gpu::MultiplyAdd<Element>((*o)[i][2 * pair], a[i], v[0], v[1]);
          gpu::MultiplyAdd<Element>((*o)[i][2 * pair + 1], a[i], v[2], v[3]);
        }
      }
    }
  }
};

}  // namespace rondo::cuda
