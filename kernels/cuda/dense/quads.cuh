// Four neighbouring elements of a row, as float, to and from memory in any RowType; used by the kernels of whole rows.
#pragma once

#include "kernels/cuda/dense/primitives.cuh"

namespace rondo::cuda {

struct Quad {
  float v[4];
};

// Element: float, gpu::Bf16 or gpu::Fp16.
template <class Element>
struct Quads {
  using Memory = uint16_t;

  RONDO_DEVICE static float Widen(uint16_t bits);
  RONDO_DEVICE static Quad Load(const Memory* from) {
    const auto word = gpu::Load(reinterpret_cast<const uint64_t*>(from));
    Quad q;
    RONDO_UNROLL
    for (int i = 0; i < 4; ++i) q.v[i] = Widen(static_cast<uint16_t>(word >> 16 * i));
    return q;
  }
  RONDO_DEVICE static void Store(Memory* to, const Quad& q) {
    const uint64_t low = gpu::Pack<Element>(q.v[0], q.v[1]);
    const uint64_t high = gpu::Pack<Element>(q.v[2], q.v[3]);
    gpu::Store(reinterpret_cast<uint64_t*>(to), low | high << 32);
  }
  RONDO_DEVICE static float LoadOne(const Memory* from) { return Widen(gpu::Load(from)); }
  RONDO_DEVICE static void StoreOne(Memory* to, float x) {
    gpu::Store(to, static_cast<uint16_t>(gpu::Pack<Element>(x, 0.0f)));
  }
};

template <>
RONDO_DEVICE float Quads<gpu::Bf16>::Widen(uint16_t bits) {
  return gpu::FloatFromBits(static_cast<uint32_t>(bits) << 16);
}
template <>
RONDO_DEVICE float Quads<gpu::Fp16>::Widen(uint16_t bits) {
  return gpu::FloatFromHalf(bits);
}

template <>
struct Quads<float> {
  using Memory = float;

  RONDO_DEVICE static Quad Load(const float* from) {
    const auto f = gpu::Load(reinterpret_cast<const gpu::Float4*>(from));
    return {{f.x, f.y, f.z, f.w}};
  }
  RONDO_DEVICE static void Store(float* to, const Quad& q) {
    gpu::Store(reinterpret_cast<gpu::Float4*>(to), {q.v[0], q.v[1], q.v[2], q.v[3]});
  }
  RONDO_DEVICE static float LoadOne(const float* from) { return gpu::Load(from); }
  RONDO_DEVICE static void StoreOne(float* to, float x) { gpu::Store(to, x); }
};

}  // namespace rondo::cuda
