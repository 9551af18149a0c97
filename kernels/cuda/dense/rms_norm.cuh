// RMS norm, with the addition to the residual stream before it: one CTA a row.
//
// The order of a row's sum: quad q of four elements belongs to lane q mod kNormThreads; a lane adds its squares in
// order of elements, each by fma; lanes are folded by xor 16, 8, 4, 2, 1 within warps, then the eight warps as a tree.
#pragma once

#include "kernels/cuda/dense/args.h"
#include "kernels/cuda/dense/quads.cuh"

namespace rondo::cuda {

inline constexpr int kNormThreads = 256;
inline constexpr int kNormWarps = kNormThreads / 32;
inline constexpr int kNormSharedBytes = kNormWarps * 4;

// The sum over all threads of the CTA, in all of them. Shared memory is free again after the next barrier.
RONDO_DEVICE float NormSum(float mine) {
  RONDO_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) mine += gpu::ShuffleXor(mine, distance);
  if (gpu::LaneIndex() == 0) gpu::StoreShared(gpu::SharedMemory() + gpu::ThreadIndex() / 32 * 4, mine);
  gpu::CtaSync();
  float warps[kNormWarps];
  RONDO_UNROLL
  for (int i = 0; i < kNormWarps; ++i) warps[i] = gpu::LoadShared<float>(gpu::SharedMemory() + i * 4);
  RONDO_UNROLL
  for (int half = kNormWarps / 2; half > 0; half /= 2) {
    RONDO_UNROLL
    for (int i = 0; i < half; ++i) warps[i] += warps[i + half];
  }
  return warps[0];
}

// Addend, Out: see Quads. A thread touches the same quads in both passes, so what it adds in the first it finds in the
// second.
template <class Addend, class Out>
RONDO_KERNEL(kNormThreads, 4)
RmsNorm(RONDO_GRID_CONSTANT const RmsNormArgs args) {
  const int first = gpu::ThreadIndex() * 4;
  constexpr int kStep = kNormThreads * 4;
  for (int64_t row = gpu::CtaIndex(); row < args.rows; row += gpu::CtaCount()) {
    float* x = args.x + row * args.cols;
    float sum = 0;
    for (int i = first; i < args.cols; i += kStep) {
      Quad quad = Quads<float>::Load(x + i);
      if (args.addend != nullptr) {
        using Memory = typename Quads<Addend>::Memory;
        const Quad more = Quads<Addend>::Load(static_cast<const Memory*>(args.addend) + row * args.cols + i);
        RONDO_UNROLL
        for (int j = 0; j < 4; ++j) quad.v[j] += more.v[j];
        Quads<float>::Store(x + i, quad);
      }
      RONDO_UNROLL
      for (int j = 0; j < 4; ++j) sum = gpu::Fma(quad.v[j], quad.v[j], sum);
    }
    const float mean = NormSum(sum) / static_cast<float>(args.cols);
    const float factor = 1.0f / gpu::SquareRoot(mean + args.eps);
    auto* out = static_cast<typename Quads<Out>::Memory*>(args.out) + row * args.cols;
    for (int i = first; i < args.cols; i += kStep) {
      Quad quad = Quads<float>::Load(x + i);
      const Quad gain = Quads<float>::Load(args.gain + i);
      RONDO_UNROLL
      for (int j = 0; j < 4; ++j) quad.v[j] = quad.v[j] * factor * gain.v[j];
      Quads<Out>::Store(out + i, quad);
    }
    gpu::CtaSync();  // the next row overwrites the warps' sums
  }
}

}  // namespace rondo::cuda
