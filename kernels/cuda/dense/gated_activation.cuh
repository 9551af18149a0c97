// Gated activations, out = act(gate) * up: SiLU and tanh-GELU by the formulas of the CPU family, docs/ALGORITHMS.md; in
// float32 with its bits, denormals aside. Used by the feed-forward layer.
#pragma once

#include "kernels/cuda/dense/args.h"
#include "kernels/cuda/dense/quads.cuh"

namespace rondo::cuda {

inline constexpr int kGateThreads = 256;

// e^x for x <= 0, relative error about 1e-7; +0 below -87, where results would become denormal. NaN counts as -87.
RONDO_DEVICE float ExpNegative(float x) {
  // Adding 1.5 * 2^23 leaves no bits for a fraction: rounds to an integer, which then is in the low bits.
  constexpr float kRounder = 12582912.0f;
  constexpr uint32_t kRounderBits = 0x4b400000u;
  const float a = gpu::Max(x, -87.0f);
  const float rounded = a * 1.44269504f + kRounder;
  const float n = rounded - kRounder;
  // ln(2) in two floats; the high one has nine significant bits, so n * high is exact.
  float t = gpu::Fma(n, -0.693359375f, a);
  t = gpu::Fma(n, 2.12194440e-4f, t);
  // Taylor to t^7; the next term is below 6e-9 on |t| <= ln(2) / 2.
  float p = 1.0f / 5040;
  p = gpu::Fma(p, t, 1.0f / 720);
  p = gpu::Fma(p, t, 1.0f / 120);
  p = gpu::Fma(p, t, 1.0f / 24);
  p = gpu::Fma(p, t, 1.0f / 6);
  p = gpu::Fma(p, t, 0.5f);
  p = gpu::Fma(p, t, 1.0f);
  p = gpu::Fma(p, t, 1.0f);
  const uint32_t exponent = gpu::BitsFromFloat(rounded) - kRounderBits;
  return x < -87.0f ? 0.0f : gpu::FloatFromBits(gpu::BitsFromFloat(p) + (exponent << 23));
}

// x * sigmoid(z), with e = exp(-|z|): no overflow, and full relative precision at both ends.
RONDO_DEVICE float TimesSigmoid(float x, float z) {
  const float e = ExpNegative(z < 0.0f ? z : 0.0f - z);
  return x * ((z < 0.0f ? e : 1.0f) / (1.0f + e));
}

template <GateKind kKind>
RONDO_DEVICE float Activation(float x) {
  if constexpr (kKind == GateKind::kSilu) return TimesSigmoid(x, x);
  // 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
  const float cubic = gpu::Fma(x * x, 0.044715f, 1.0f);
  return TimesSigmoid(x, x * 1.5957691216057308f * cubic);
}

// A thread takes four elements at a time; rows * cols / 4 is below 2^31.
template <class In, class Out, GateKind kKind>
RONDO_KERNEL(kGateThreads, 4)
GatedActivation(RONDO_GRID_CONSTANT const GatedActivationArgs args) {
  using InMemory = typename Quads<In>::Memory;
  const uint32_t quads = static_cast<uint32_t>(args.cols / 4);
  const uint32_t total = static_cast<uint32_t>(args.rows) * quads;
  const uint32_t step = static_cast<uint32_t>(gpu::CtaCount()) * kGateThreads;
  for (uint32_t i = static_cast<uint32_t>(gpu::CtaIndex() * kGateThreads + gpu::ThreadIndex()); i < total; i += step) {
    const int64_t row = i / quads;
    const int64_t col = int64_t{i % quads} * 4;
    const int64_t at = row * args.in_stride + col;
    const Quad gate = Quads<In>::Load(static_cast<const InMemory*>(args.gate) + at);
    const Quad up = Quads<In>::Load(static_cast<const InMemory*>(args.up) + at);
    Quad out;
    RONDO_UNROLL
    for (int j = 0; j < 4; ++j) out.v[j] = Activation<kKind>(gate.v[j]) * up.v[j];
    Quads<Out>::Store(static_cast<typename Quads<Out>::Memory*>(args.out) + row * args.cols + col, out);
  }
}

}  // namespace rondo::cuda
