// The law for dense layers: the instruction set, the number of threads and the rows that came along never change a bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/thread_pool.h"
#include "tests/kernels/dense/host_kernels.h"
#include "tests/kernels/dense/weights.h"

namespace rondo::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Bit equality, where all NaN count as one: which NaN comes out of two is not defined.
::testing::AssertionResult SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

std::vector<float> MatMul(const DenseKernels& kernels, ComputeMode mode, const WeightView& weight,
                          const std::vector<float>& x, ThreadPool& pool) {
  ActivationRows rows;
  const int64_t count = static_cast<int64_t>(x.size()) / weight.cols;
  kernels.PrepareRows(mode, x.data(), count, weight.cols, &rows, pool);
  std::vector<float> y(count * weight.rows, -7.0f);
  kernels.MatMul(weight, rows, y.data(), pool);
  return y;
}

class DenseBits : public ::testing::TestWithParam<WeightType> {
 protected:
  std::mt19937_64 random_{static_cast<uint64_t>(GetParam()) + 1};

  int64_t RandomCols() {
    const int64_t block = FindWeightType(GetParam())->block_elements;
    if (block == 1) return 1 + static_cast<int64_t>(random_() % 700);
    return block * (1 + static_cast<int64_t>(random_() % (block == 32 ? 40 : 6)));
  }
};

TEST_P(DenseBits, EveryInstructionSetAgreesWithPortable) {
  ThreadPool one(1), two(2), three(3);
  ThreadPool* pools[] = {&one, &two, &three};
  for (int64_t count : {1, 2, 3, 4, 5, 6, 7, 13, 17, 64, 259}) {
    const int64_t rows = 1 + static_cast<int64_t>(random_() % (count > 100 ? 40 : 70));
    const int64_t cols = RandomCols();
    const Weights weights = MakeWeights(GetParam(), rows, cols, Fill::kRandom, random_);
    const std::vector<float> x = RandomFloats(count * cols, random_, 3);
    for (ComputeMode mode : {ComputeMode::kF32, ComputeMode::kQ8}) {
      const std::vector<float> expected = MatMul(*PortableDense(), mode, weights.view, x, two);
      for (const DenseKernels* kernels : FastDenseKernels()) {
        EXPECT_TRUE(SameBits(expected, MatMul(*kernels, mode, weights.view, x, *pools[random_() % 3])))
            << kernels->name() << " " << Name(mode) << " count " << count << " rows " << rows << " cols " << cols;
      }
    }
  }
}

// Larger than one chunk of every kernel: 1024 in q8, 256 in f32, 4096 in portable.
TEST_P(DenseBits, LongRowsAgree) {
  ThreadPool pool(2);
  const int64_t cols = FindWeightType(GetParam())->block_elements == 1 ? 4133 : 4096 + 512;
  const Weights weights = MakeWeights(GetParam(), 19, cols, Fill::kRandom, random_);
  const std::vector<float> x = RandomFloats(9 * cols, random_);
  for (ComputeMode mode : {ComputeMode::kF32, ComputeMode::kQ8}) {
    const std::vector<float> expected = MatMul(*PortableDense(), mode, weights.view, x, pool);
    for (const DenseKernels* kernels : FastDenseKernels()) {
      EXPECT_TRUE(SameBits(expected, MatMul(*kernels, mode, weights.view, x, pool))) << kernels->name() << Name(mode);
      const std::vector<float> first(x.begin(), x.begin() + cols);
      EXPECT_TRUE(
          SameBits({expected.begin(), expected.begin() + 19}, MatMul(*kernels, mode, weights.view, first, pool)))
          << kernels->name() << Name(mode);
    }
  }
}

TEST_P(DenseBits, ARowDoesNotDependOnItsNeighboursOrThreads) {
  ThreadPool one(1), three(3);
  const int64_t cols = FindWeightType(GetParam())->block_elements == 1 ? 611 : 1280, rows = 37, count = 23;
  const Weights weights = MakeWeights(GetParam(), rows, cols, Fill::kRandom, random_);
  const std::vector<float> x = RandomFloats(count * cols, random_);
  std::vector<const DenseKernels*> all = FastDenseKernels();
  all.push_back(PortableDense());
  for (const DenseKernels* kernels : all) {
    for (ComputeMode mode : {ComputeMode::kF32, ComputeMode::kQ8}) {
      const std::vector<float> batch = MatMul(*kernels, mode, weights.view, x, three);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t some = 1 + i % 5;  // a row alone, and in runs of up to five
        const int64_t n = std::min(some, count - i);
        const std::vector<float> part(x.begin() + i * cols, x.begin() + (i + n) * cols);
        const std::vector<float> expected(batch.begin() + i * rows, batch.begin() + (i + n) * rows);
        ASSERT_TRUE(SameBits(expected, MatMul(*kernels, mode, weights.view, part, one)))
            << kernels->name() << " " << Name(mode) << " row " << i << " of " << n;
      }
    }
  }
}

// The largest codes of both sides: 16-bit partial sums must not wrap or saturate. Also scales at the ends.
TEST_P(DenseBits, ExtremeCodesAndScalesAgree) {
  ThreadPool pool(1);
  const int64_t cols = 512, rows = 33, count = 7;
  for (Fill fill : {Fill::kExtreme, Fill::kZero, Fill::kDenormal, Fill::kHuge}) {
    const Weights weights = MakeWeights(GetParam(), rows, cols, fill, random_);
    std::vector<float> x(count * cols);
    for (int64_t i = 0; i < count * cols; ++i) {
      switch (i / cols) {
        case 0:
          x[i] = 1;
          break;  // all codes 127
        case 1:
          x[i] = -1;
          break;  // all codes -127
        case 2:
          x[i] = 0;
          break;
        case 3:
          x[i] = (random_() % 2 != 0 ? 3e38f : -3e38f);
          break;
        case 4:
          x[i] = 1e-39f;
          break;  // denormal
        case 5:
          x[i] = static_cast<float>(random_() % 255) * 1e-36f;
          break;
        default:
          x[i] = random_() % 2 != 0 ? 1.0f : -1.0f;
      }
    }
    for (ComputeMode mode : {ComputeMode::kF32, ComputeMode::kQ8}) {
      const std::vector<float> expected = MatMul(*PortableDense(), mode, weights.view, x, pool);
      for (const DenseKernels* kernels : FastDenseKernels()) {
        EXPECT_TRUE(SameBits(expected, MatMul(*kernels, mode, weights.view, x, pool)))
            << kernels->name() << " " << Name(mode) << " fill " << static_cast<int>(fill);
        for (int64_t i = 0; i < count; ++i) {
          const std::vector<float> row(x.begin() + i * cols, x.begin() + (i + 1) * cols);
          EXPECT_TRUE(SameBits({expected.begin() + i * rows, expected.begin() + (i + 1) * rows},
                               MatMul(*kernels, mode, weights.view, row, pool)))
              << kernels->name() << " " << Name(mode) << " fill " << static_cast<int>(fill) << " row " << i;
        }
      }
    }
  }
}

TEST_P(DenseBits, DequantisedRowsAgree) {
  for (Fill fill : {Fill::kRandom, Fill::kExtreme, Fill::kDenormal, Fill::kHuge}) {
    const int64_t cols = RandomCols();
    const Weights weights = MakeWeights(GetParam(), 3, cols, fill, random_);
    for (int64_t row = 0; row < 3; ++row) {
      std::vector<float> expected(cols), actual(cols);
      PortableDense()->DequantiseRow(weights.view, row, expected.data());
      for (const DenseKernels* kernels : FastDenseKernels()) {
        kernels->DequantiseRow(weights.view, row, actual.data());
        EXPECT_TRUE(SameBits(expected, actual)) << kernels->name();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DenseBits, ::testing::ValuesIn(kAllWeightTypes),
                         [](const auto& info) { return TypeName(info.param); });

TEST(HalfBits, AllHalvesConvertAlike) {
  std::vector<uint16_t> halves(65536);
  for (int i = 0; i < 65536; ++i) halves[i] = static_cast<uint16_t>(i);
  const WeightView weight{WeightType::kF16, reinterpret_cast<const std::byte*>(halves.data()), 1, 65536, 131072};
  std::vector<float> expected(65536), actual(65536);
  PortableDense()->DequantiseRow(weight, 0, expected.data());
  for (int i = 0; i < 65536; ++i) {
    const double value = FromHalf(halves[i]);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(expected[i]));
    } else {
      EXPECT_EQ(value, expected[i]) << i;
    }
  }
  for (const DenseKernels* kernels : FastDenseKernels()) {
    kernels->DequantiseRow(weight, 0, actual.data());
    EXPECT_EQ(0, std::memcmp(expected.data(), actual.data(), 65536 * 4)) << kernels->name();
  }
}

TEST(QuantiseBits, CodesScalesAndSumsAgree) {
  ThreadPool pool(2);
  std::mt19937_64 random(5);
  const int64_t count = 67, cols = 96;
  std::vector<float> x = RandomFloats(count * cols, random);
  for (int64_t i = 0; i < cols; ++i) {
    x[i] = 0;
    x[cols + i] = 3.4e38f;
    x[2 * cols + i] = 1e-38f;
    x[3 * cols + i] = static_cast<float>(i) - 40.5f;  // ties
    x[4 * cols + i] = i == 50 ? kInf : 1.0f;
    x[5 * cols + i] = i == 3 ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
    x[6 * cols + i] = i == 3 ? -1.0f : 1e-9f;
  }
  ActivationRows expected, actual;
  PortableDense()->PrepareRows(ComputeMode::kQ8, x.data(), count, cols, &expected, pool);
  for (const DenseKernels* kernels : FastDenseKernels()) {
    kernels->PrepareRows(ComputeMode::kQ8, x.data(), count, cols, &actual, pool);
    EXPECT_EQ(expected.codes, actual.codes) << kernels->name();
    EXPECT_EQ(expected.code_sums, actual.code_sums) << kernels->name();
    EXPECT_EQ(0, std::memcmp(expected.scale.data(), actual.scale.data(), expected.scale.size() * 4));
    EXPECT_EQ(0, std::memcmp(expected.scaled_sum.data(), actual.scaled_sum.data(), expected.scale.size() * 4));
  }
}

TEST(RowOperationBits, AgreeForEveryLength) {
  ThreadPool one(1), three(3);
  std::mt19937_64 random(6);
  for (const DenseKernels* kernels : FastDenseKernels()) {
    for (int64_t cols : {1, 2, 7, 8, 15, 16, 17, 24, 31, 33, 64, 576, 577, 640, 4099}) {
      const int64_t count = 3;
      const std::vector<float> x = RandomFloats(count * cols, random, 5), gain = RandomFloats(cols, random, 2);
      std::vector<float> expected(x.size()), actual(x.size());
      PortableDense()->RmsNorm(x.data(), gain.data(), 1e-5f, count, cols, expected.data(), one);
      kernels->RmsNorm(x.data(), gain.data(), 1e-5f, count, cols, actual.data(), three);
      EXPECT_TRUE(SameBits(expected, actual)) << kernels->name() << " norm " << cols;
      actual = x;  // in place, one row alone
      kernels->RmsNorm(actual.data() + cols, gain.data(), 1e-5f, 1, cols, actual.data() + cols, one);
      EXPECT_TRUE(SameBits({expected.begin() + cols, expected.begin() + 2 * cols},
                           {actual.begin() + cols, actual.begin() + 2 * cols}));

      std::vector<float> gate = RandomFloats(x.size(), random, 30);
      gate[0] = cols % 2 == 0 ? -1e30f : 1e30f;
      for (GateKind kind : {GateKind::kSilu, GateKind::kGeluTanh}) {
        PortableDense()->GatedActivation(kind, gate.data(), x.data(), x.size(), expected.data(), one);
        actual = gate;  // out may be gate
        kernels->GatedActivation(kind, actual.data(), x.data(), x.size(), actual.data(), three);
        EXPECT_TRUE(SameBits(expected, actual)) << kernels->name() << " gate " << cols;
      }
      expected = actual = x;
      PortableDense()->Add(expected.data(), gate.data(), x.size(), one);
      kernels->Add(actual.data(), gate.data(), x.size(), three);
      EXPECT_TRUE(SameBits(expected, actual)) << kernels->name() << " add " << cols;
    }
  }
}

TEST(RowOperationBits, RopeAgrees) {
  ThreadPool one(1), three(3);
  std::mt19937_64 random(7);
  for (const DenseKernels* kernels : FastDenseKernels()) {
    for (RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalves}) {
      for (int32_t head_dim : {2, 6, 8, 34, 64, 80, 256}) {
        const int32_t rotated = head_dim > 8 ? head_dim - 2 : head_dim, heads = 3;
        const int64_t count = 5;
        const std::vector<float> x = RandomFloats(count * heads * head_dim, random);
        const std::vector<float> c = RandomFloats(count * rotated / 2, random);
        const std::vector<float> s = RandomFloats(count * rotated / 2, random);
        std::vector<float> expected = x, actual = x;
        PortableDense()->Rope(expected.data(), count, heads, head_dim, pairing, c.data(), s.data(), rotated, one);
        kernels->Rope(actual.data(), count, heads, head_dim, pairing, c.data(), s.data(), rotated, three);
        EXPECT_TRUE(SameBits(expected, actual)) << kernels->name() << " " << head_dim;
      }
    }
  }
}

}  // namespace
}  // namespace rondo::testing
