// Whether a tile of V holds numbers that are not finite: 0 times those is NaN, so rows that do not see them must be
// kept apart from rows that do. Used by the prefill and decode kernels, on tiles that lie on the edge of a mask.
#pragma once

#include "kernels/cuda/attention/shared_rows.cuh"
#include "kernels/cuda/attention/softmax.cuh"

namespace rondo::cuda {

// All exponent bits of a 16-bit element set: infinite or NaN.
template <class Element>
struct NotFinite;
template <>
struct NotFinite<gpu::Bf16> {
  static constexpr uint32_t kExponent = 0x7f80;
};
template <>
struct NotFinite<gpu::Fp16> {
  static constexpr uint32_t kExponent = 0x7c00;
};

// Of eight elements.
template <class Element>
RONDO_DEVICE bool AnyNotFinite(const gpu::Word4& chunk) {
  constexpr uint32_t kLow = NotFinite<Element>::kExponent;
  constexpr uint32_t kHigh = kLow << 16;
  const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
  bool any = false;
  RONDO_UNROLL
  for (int j = 0; j < 4; ++j) any = any || (words[j] & kLow) == kLow || (words[j] & kHigh) == kHigh;
  return any;
}

// Of the part of the tile this thread copied, which has landed.
template <class Element, int D, int kThreads>
RONDO_DEVICE bool AnyNotFinite(gpu::Shared tile) {
  bool any = false;
  SharedRows<D>::template ForOwnChunks<kKeyTile, kThreads>(
      tile, [&](gpu::Shared at) { any |= AnyNotFinite<Element>(gpu::LoadShared<gpu::Word4>(at)); });
  return any;
}

}  // namespace rondo::cuda
