// Gated activations: in float32 the bits of the CPU family, whose own tests hold it to float64; other types against
// float64.
#include "kernels/cuda/dense/gated_activation.cuh"

#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "kernels/cpu/dense/factories.h"
#include "tests/kernels/cuda/dense/emulated.h"

namespace rondo::cuda {
namespace {

constexpr GateKind kKinds[] = {GateKind::kSilu, GateKind::kGeluTanh};

// Gate and up as the two halves of rows.
template <class In, class Out>
std::vector<typename Kept<Out>::Memory> Gated(GateKind kind, const std::vector<typename Kept<In>::Memory>& both,
                                              int64_t rows, int32_t cols, const HowToRun& how = {}) {
  auto out = Poisoned<typename Kept<Out>::Memory>(rows * cols);
  EmulatedLaunch launch(how);
  const auto* gate = launch.In(both, "gate and up");
  const GatedActivationArgs args{.gate = gate,
                                 .up = gate + cols,
                                 .in_stride = 2 * cols,
                                 .out = launch.Out(out, "out"),
                                 .rows = rows,
                                 .cols = cols};
  launch.Run(kGateThreads, 0, [&] {
    if (kind == GateKind::kSilu) {
      GatedActivation<In, Out, GateKind::kSilu>(args);
    } else {
      GatedActivation<In, Out, GateKind::kGeluTanh>(args);
    }
  });
  return out;
}

double Expected(GateKind kind, double gate, double up) {
  const double z = kind == GateKind::kSilu ? gate : 2 * 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate);
  return gate / (1 + std::exp(-z)) * up;
}

template <class In, class Out>
void ExpectRight(int64_t rows, int32_t cols, const HowToRun& how = {}) {
  const auto both = Kept<In>::From(Uniform(rows * cols * 2, 6, 12));
  for (const GateKind kind : kKinds) {
    const auto got = Gated<In, Out>(kind, both, rows, cols, how);
    for (int64_t i = 0; i < rows * cols; ++i) {
      const int64_t at = i / cols * 2 * cols + i % cols;
      const double expected = Expected(kind, Kept<In>::To(both[at]), Kept<In>::To(both[at + cols]));
      // tanh-GELU's exponent is up to 20 here and carries some roundings. 6e-8: the spacing of fp16's denormals.
      ASSERT_NEAR(expected, Kept<Out>::To(got[i]), std::fabs(expected) * (1e-5 + Kept<Out>::kRounding) + 6e-8) << i;
    }
  }
}

TEST(CudaGatedActivation, EveryTypeOverOddSizes) {
  for (const int32_t cols : {4, 36, 1500}) {
    ExpectRight<float, float>(3, cols);
    ExpectRight<float, gpu::Bf16>(3, cols);
    ExpectRight<float, gpu::Fp16>(3, cols);
    ExpectRight<gpu::Bf16, gpu::Bf16>(3, cols, {.ctas = 1});
    ExpectRight<gpu::Fp16, gpu::Fp16>(3, cols, {.ctas = 5});
  }
  ExpectRight<float, float>(0, 8);
}

TEST(CudaGatedActivation, EverySchedule) {
  for (const simt::Options& options : simt::AllSchedules(7)) ExpectRight<float, float>(2, 700, {.options = options});
}

TEST(CudaGatedActivation, TheBitsOfTheCpuFamily) {
  ThreadPool pool(1);
  std::vector<float> gate = Uniform(4088, 50, 13);
  for (const float g : {0.0f, -0.0f, 1e-30f, -86.5f, -87.5f, -1e4f, 1e4f, std::numeric_limits<float>::infinity()}) {
    gate.push_back(g);
  }
  const std::vector<float> up = Uniform(4096, 3, 14);
  std::vector<float> both = gate;
  both.insert(both.end(), up.begin(), up.end());
  for (const GateKind kind : kKinds) {
    std::vector<float> expected(gate.size());
    PortableDense()->GatedActivation(kind, gate.data(), up.data(), 4096, expected.data(), pool);
    EXPECT_TRUE(SameBits(expected, Gated<float, float>(kind, both, 1, 4096)));
  }
}

TEST(CudaGatedActivation, NotANumberStaysOne) {
  std::vector<float> both = Uniform(16, 1, 15);
  both[3] = std::numeric_limits<float>::quiet_NaN();
  for (const GateKind kind : kKinds) {
    const std::vector<float> got = Gated<float, float>(kind, both, 1, 8);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(std::isnan(got[i]), i == 3) << i;
  }
}

}  // namespace
}  // namespace rondo::cuda
