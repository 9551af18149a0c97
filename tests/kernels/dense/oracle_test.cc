// The dense kernels against plain double arithmetic written here, from the formulas of docs/ALGORITHMS.md.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "kernels/ref/factories.h"
#include "tests/kernels/dense/host_kernels.h"
#include "tests/kernels/dense/weights.h"

namespace rondo::testing {
namespace {

// One q8 activation row by its definition: s = max / 127, code = rint(x * (127 / max)), both quotients in float.
struct Quantised {
  std::vector<int> code;
  std::vector<double> scale;  // a block
};

Quantised Quantise(const float* x, int64_t cols) {
  Quantised q;
  for (int64_t b = 0; b < cols / 32; ++b) {
    float max = 0;
    for (int i = 0; i < 32; ++i) max = std::max(max, std::fabs(x[b * 32 + i]));
    const float inverse = max > 0 ? 127.0f / max : 0.0f;
    q.scale.push_back(max / 127.0f);
    for (int i = 0; i < 32; ++i) q.code.push_back(static_cast<int>(std::nearbyint(x[b * 32 + i] * inverse)));
  }
  return q;
}

std::vector<const DenseKernels*> AllKernels() {
  std::vector<const DenseKernels*> kernels = FastDenseKernels();
  kernels.push_back(PortableDense());
  kernels.push_back(RefDense());
  return kernels;
}

class DenseOracle : public ::testing::TestWithParam<WeightType> {
 protected:
  std::mt19937_64 random_{static_cast<uint64_t>(GetParam()) + 100};
  ThreadPool pool_{2};
};

TEST_P(DenseOracle, DequantisedRowsAreTheTablesFormulas) {
  for (Fill fill : {Fill::kRandom, Fill::kExtreme, Fill::kHuge}) {
    const int64_t cols = 768, rows = 5;
    const Weights weights = MakeWeights(GetParam(), rows, cols, fill, random_);
    const std::vector<double> expected = Decode(weights.view);
    std::vector<float> actual(cols);
    for (const DenseKernels* kernels : AllKernels()) {
      for (int64_t row = 0; row < rows; ++row) {
        kernels->DequantiseRow(weights.view, row, actual.data());
        for (int64_t i = 0; i < cols; ++i) {
          const double y = expected[row * cols + i];
          // Product and sum are rounded once each; where they cancel, the larger of them sets the error, and no
          // term exceeds 63 sub-scales of the largest half.
          const double terms = std::max({std::fabs(y), fill == Fill::kHuge ? 65504.0 * 63 * 31 : 63.0 * 31});
          ASSERT_NEAR(y, actual[i], (fill == Fill::kRandom ? std::fabs(y) + 30 : terms) * 1.3e-7)
              << kernels->name() << " row " << row << " element " << i;
        }
      }
    }
  }
}

TEST_P(DenseOracle, ProductsInFloat) {
  const int64_t cols = 1536, rows = 21;
  const Weights weights = MakeWeights(GetParam(), rows, cols, Fill::kRandom, random_);
  const std::vector<double> w = Decode(weights.view);
  for (int64_t count : {1, 7}) {
    const std::vector<float> x = RandomFloats(count * cols, random_);
    std::vector<float> y(count * rows);
    for (const DenseKernels* kernels : AllKernels()) {
      ActivationRows prepared;
      kernels->PrepareRows(ComputeMode::kF32, x.data(), count, cols, &prepared, pool_);
      EXPECT_FALSE(prepared.has_codes());
      kernels->MatMul(weights.view, prepared, y.data(), pool_);
      for (int64_t t = 0; t < count; ++t) {
        for (int64_t r = 0; r < rows; ++r) {
          double sum = 0, size = 0;
          for (int64_t k = 0; k < cols; ++k) {
            const double product = w[r * cols + k] * x[t * cols + k];
            sum += product;
            size += std::fabs(product);
          }
          // Random rounding errors of 1536 additions stay far below the worst case; 2e-6 of the sum of magnitudes
          // is some forty roundings.
          ASSERT_NEAR(sum, y[t * rows + r], 2e-6 * size) << kernels->name() << " token " << t << " row " << r;
        }
      }
    }
  }
}

TEST_P(DenseOracle, ProductsWithInt8Activations) {
  const WeightTypeInfo& info = *FindWeightType(GetParam());
  const int64_t cols = 1536, rows = 21;
  for (Fill fill : {Fill::kRandom, Fill::kExtreme}) {
    const Weights weights = MakeWeights(GetParam(), rows, cols, fill, random_);
    const std::vector<double> w = Decode(weights.view);
    for (int64_t count : {1, 3, 9}) {
      std::vector<float> x = RandomFloats(count * cols, random_);
      if (fill == Fill::kExtreme) {
        for (int64_t i = 0; i < count * cols; ++i) x[i] = i / cols % 2 == 0 ? 1.0f : -1.0f;
      }
      std::vector<float> y(count * rows);
      for (const DenseKernels* kernels : AllKernels()) {
        ActivationRows prepared;
        kernels->PrepareRows(ComputeMode::kQ8, x.data(), count, cols, &prepared, pool_);
        EXPECT_TRUE(prepared.has_codes());
        kernels->MatMul(weights.view, prepared, y.data(), pool_);
        for (int64_t t = 0; t < count; ++t) {
          const Quantised q = Quantise(&x[t * cols], cols);
          for (int64_t r = 0; r < rows; ++r) {
            double sum = 0, size = 0, exact = 0;
            for (int64_t k = 0; k < cols; ++k) {
              // An unquantised weight meets the float activations also in q8 mode.
              const double a = info.quantised ? q.scale[k / 32] * q.code[k] : double{x[t * cols + k]};
              sum += w[r * cols + k] * a;
              size += std::fabs(w[r * cols + k] * a);
              exact += w[r * cols + k] * x[t * cols + k];
            }
            // Integer products are exact, so only a few roundings a block remain. Minima cancel against the products
            // that they were subtracted from: allow for their size.
            ASSERT_NEAR(sum, y[t * rows + r], 1e-6 * size + (fill == Fill::kRandom ? 2e-4 : 5e-7 * size + 1e-2))
                << kernels->name() << " token " << t << " row " << r;
            // And the mode itself stays close to the float product: half a code of 127 at random.
            ASSERT_NEAR(exact, y[t * rows + r], 0.004 * size + 1e-2) << kernels->name();
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DenseOracle, ::testing::ValuesIn(kAllWeightTypes),
                         [](const auto& info) { return TypeName(info.param); });

TEST(DenseOracle, NonFiniteActivationsPoisonTheirRowOnly) {
  ThreadPool pool(1);
  std::mt19937_64 random(3);
  const Weights weights = MakeWeights(WeightType::kQ4_1, 20, 64, Fill::kRandom, random);
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    for (int64_t count : {2, 9}) {
      std::vector<float> x = RandomFloats(count * 64, random), y(count * 20);
      x[33] = bad;
      for (const DenseKernels* kernels : AllKernels()) {
        ActivationRows prepared;
        kernels->PrepareRows(ComputeMode::kQ8, x.data(), count, 64, &prepared, pool);
        kernels->MatMul(weights.view, prepared, y.data(), pool);
        for (int64_t i = 0; i < count * 20; ++i) EXPECT_EQ(i < 20, std::isnan(y[i])) << kernels->name() << i;
      }
    }
  }
}

TEST(DenseOracle, RmsNorm) {
  ThreadPool pool(1);
  std::mt19937_64 random(4);
  for (int64_t cols : {1, 5, 16, 576, 4099}) {
    for (float magnitude : {1e-4f, 1.0f, 1e4f}) {
      const std::vector<float> x = RandomFloats(cols, random, magnitude), gain = RandomFloats(cols, random, 2);
      std::vector<float> y(cols);
      double sum = 0;
      for (float v : x) sum += double{v} * v;
      for (const DenseKernels* kernels : AllKernels()) {
        kernels->RmsNorm(x.data(), gain.data(), 1e-5f, 1, cols, y.data(), pool);
        for (int64_t i = 0; i < cols; ++i) {
          const double expected = x[i] / std::sqrt(sum / static_cast<double>(cols) + double{1e-5f}) * gain[i];
          ASSERT_NEAR(expected, y[i], std::fabs(expected) * 1e-6) << kernels->name() << " cols " << cols;
        }
      }
    }
  }
}

TEST(DenseOracle, RopeTurnsThePairsOfItsPairing) {
  ThreadPool pool(1);
  const int32_t head_dim = 6, rotated = 4;
  const std::vector<float> cos = {0, 0.5f}, sin = {1, 0.25f};
  for (const DenseKernels* kernels : AllKernels()) {
    std::vector<float> x = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60};  // two heads
    kernels->Rope(x.data(), 1, 2, head_dim, RopePairing::kInterleaved, cos.data(), sin.data(), rotated, pool);
    EXPECT_EQ((std::vector<float>{-2, 1, 0.5f, 2.75f, 5, 6, -20, 10, 5, 27.5f, 50, 60}), x) << kernels->name();
    x = {1, 2, 3, 4, 5, 6};
    kernels->Rope(x.data(), 1, 1, head_dim, RopePairing::kHalves, cos.data(), sin.data(), rotated, pool);
    EXPECT_EQ((std::vector<float>{-3, 0, 1, 2.5f, 5, 6}), x) << kernels->name();
  }
}

TEST(DenseOracle, GatedActivations) {
  ThreadPool pool(1);
  std::vector<float> gate, up;
  for (double g = -40; g < 40; g += 0.0173) gate.push_back(static_cast<float>(g));
  for (float g : {0.0f, -0.0f, 1e-30f, -86.5f, -1e4f, 1e4f, 3e38f, -3e38f}) gate.push_back(g);
  for (size_t i = 0; i < gate.size(); ++i) up.push_back(i % 2 == 0 ? 1.0f : -0.75f);
  std::vector<float> y(gate.size());
  for (const DenseKernels* kernels : AllKernels()) {
    for (GateKind kind : {GateKind::kSilu, GateKind::kGeluTanh}) {
      kernels->GatedActivation(kind, gate.data(), up.data(), y.size(), y.data(), pool);
      for (size_t i = 0; i < y.size(); ++i) {
        const double x = gate[i];
        const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
        // tanh(u) + 1 loses everything for u << 0; the exponential form does not.
        const double silu = x / (1 + std::exp(-x)), gelu = x / (1 + std::exp(-2 * u));
        const double expected = (kind == GateKind::kSilu ? silu : gelu) * up[i];
        // The exponent 2u carries a relative error of a few roundings, so the tail's error grows with |2u|.
        const double tail = kind == GateKind::kGeluTanh && x < 0 ? 1 + std::fabs(2 * u) : 1;
        ASSERT_NEAR(expected, y[i], std::fabs(expected) * 4e-7 * tail + 1e-35)
            << kernels->name() << " gate " << x << " kind " << static_cast<int>(kind);
      }
    }
  }
}

}  // namespace
}  // namespace rondo::testing
