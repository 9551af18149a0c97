// RoPE: against float64 in every type, and in float32 the bits of the CPU family.
#include "kernels/cuda/dense/rope.cuh"

#include <cmath>

#include "base/thread_pool.h"
#include "kernels/cpu/dense/factories.h"
#include "tests/kernels/cuda/dense/emulated.h"

namespace rondo::cuda {
namespace {

struct Shape {
  int64_t rows = 5;
  int32_t heads = 3;
  int32_t head_dim = 64;
  int32_t rotated = 64;
  int32_t gap = 0;  // elements between rows that are not to be touched

  int64_t row_stride() const { return int64_t{heads} * head_dim + gap; }
  int32_t pairs() const { return rotated / 2; }
};

struct Angles {
  explicit Angles(const Shape& shape) {
    for (const float angle : Uniform(shape.rows * shape.pairs(), 3.2f, 8)) {
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
  }
  std::vector<float> cos, sin;
};

template <class Element>
using Rows = std::vector<typename Kept<Element>::Memory>;

template <class Element>
Rows<Element> Rotate(const Shape& shape, RopePairing pairing, Rows<Element> x, const Angles& angles,
                     const HowToRun& how = {}) {
  EmulatedLaunch launch(how);
  const RopeArgs args{.x = launch.Out(x, "x"),
                      .cos = launch.In(angles.cos, "cos"),
                      .sin = launch.In(angles.sin, "sin"),
                      .row_stride = shape.row_stride(),
                      .rows = shape.rows,
                      .heads = shape.heads,
                      .head_dim = shape.head_dim,
                      .rotated = shape.rotated};
  launch.Run(kRopeThreads, 0, [&] {
    if (pairing == RopePairing::kHalves) {
      Rope<Element, RopePairing::kHalves>(args);
    } else {
      Rope<Element, RopePairing::kInterleaved>(args);
    }
  });
  return x;
}

template <class Element>
void ExpectRight(const Shape& shape, RopePairing pairing, const HowToRun& how = {}) {
  const Rows<Element> x = Kept<Element>::From(Uniform(shape.rows * shape.row_stride(), 2, 9));
  const Angles angles(shape);
  const Rows<Element> got = Rotate<Element>(shape, pairing, x, angles, how);
  std::vector<double> expected;
  for (const auto bits : x) expected.push_back(Kept<Element>::To(bits));
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int32_t head = 0; head < shape.heads; ++head) {
      for (int32_t pair = 0; pair < shape.pairs(); ++pair) {
        const int64_t of_head = row * shape.row_stride() + head * shape.head_dim;
        const int64_t i = of_head + (pairing == RopePairing::kHalves ? pair : 2 * pair);
        const int64_t j = of_head + (pairing == RopePairing::kHalves ? pair + shape.pairs() : 2 * pair + 1);
        const double a = expected[i], b = expected[j];
        const double c = angles.cos[row * shape.pairs() + pair], s = angles.sin[row * shape.pairs() + pair];
        expected[i] = a * c - b * s;
        expected[j] = b * c + a * s;
      }
    }
  }
  for (size_t i = 0; i < x.size(); ++i) {
    // Terms are below 2; where they cancel their roundings stay.
    ASSERT_NEAR(expected[i], Kept<Element>::To(got[i]), std::fabs(expected[i]) * Kept<Element>::kRounding + 5e-7) << i;
  }
}

constexpr RopePairing kPairings[] = {RopePairing::kInterleaved, RopePairing::kHalves};

TEST(CudaRope, EveryTypeAndShape) {
  for (const RopePairing pairing : kPairings) {
    for (const Shape& shape : {Shape{}, Shape{.rows = 1, .heads = 1, .head_dim = 2, .rotated = 2},
                               Shape{.heads = 7, .head_dim = 80, .rotated = 20}, Shape{.gap = 24}, Shape{.rows = 0}}) {
      ExpectRight<float>(shape, pairing);
      ExpectRight<gpu::Bf16>(shape, pairing, {.ctas = 1});
      ExpectRight<gpu::Fp16>(shape, pairing, {.ctas = 4});
    }
  }
}

TEST(CudaRope, EverySchedule) {
  for (const simt::Options& options : simt::AllSchedules(6)) {
    ExpectRight<gpu::Bf16>({.head_dim = 66, .rotated = 66}, RopePairing::kHalves, {.options = options});
  }
}

TEST(CudaRope, TheBitsOfTheCpuFamily) {
  ThreadPool pool(1);
  const Shape shape{.rows = 6, .heads = 5, .head_dim = 96, .rotated = 44};
  const Angles angles(shape);
  for (const RopePairing pairing : kPairings) {
    std::vector<float> x = Uniform(shape.rows * shape.row_stride(), 2, 9);
    const std::vector<float> got = Rotate<float>(shape, pairing, x, angles);
    PortableDense()->Rope(x.data(), shape.rows, shape.heads, shape.head_dim, pairing, angles.cos.data(),
                          angles.sin.data(), shape.rotated, pool);
    EXPECT_TRUE(SameBits(x, got));
  }
}

}  // namespace
}  // namespace rondo::cuda
