// RoPE in place: a' = fma(a, cos, 0 - b * sin), b' = fma(b, cos, a * sin), the arithmetic of the CPU family; in float32
// the bits too.
#pragma once

#include "kernels/cuda/dense/args.h"
#include "kernels/cuda/dense/quads.cuh"

namespace rondo::cuda {

inline constexpr int kRopeThreads = 256;

// A thread takes one pair at a time; rows * heads * rotated / 2 is below 2^31.
template <class Element, RopePairing kPairing>
RONDO_KERNEL(kRopeThreads, 4)
Rope(RONDO_GRID_CONSTANT const RopeArgs args) {
  using Memory = typename Quads<Element>::Memory;
  const uint32_t pairs = static_cast<uint32_t>(args.rotated / 2);
  const uint32_t total = static_cast<uint32_t>(args.rows) * static_cast<uint32_t>(args.heads) * pairs;
  const uint32_t step = static_cast<uint32_t>(gpu::CtaCount()) * kRopeThreads;
  for (uint32_t i = static_cast<uint32_t>(gpu::CtaIndex() * kRopeThreads + gpu::ThreadIndex()); i < total; i += step) {
    const int pair = static_cast<int>(i % pairs);
    const int head = static_cast<int>(i / pairs) % args.heads;
    const int64_t row = i / pairs / static_cast<uint32_t>(args.heads);
    Memory* of_head = static_cast<Memory*>(args.x) + row * args.row_stride + int64_t{head} * args.head_dim;
    Memory* first = of_head + (kPairing == RopePairing::kHalves ? pair : 2 * pair);
    Memory* second = first + (kPairing == RopePairing::kHalves ? args.rotated / 2 : 1);
    const float a = Quads<Element>::LoadOne(first);
    const float b = Quads<Element>::LoadOne(second);
    const float cos = gpu::Load(args.cos + row * pairs + pair);
    const float sin = gpu::Load(args.sin + row * pairs + pair);
    Quads<Element>::StoreOne(first, gpu::Fma(a, cos, 0.0f - b * sin));
    Quads<Element>::StoreOne(second, gpu::Fma(b, cos, a * sin));
  }
}

}  // namespace rondo::cuda
