// Products from packed Q4_1, Q8_0 and Q4_K weights: against float64 over the file's own blocks, and a row's bits
// whatever comes along.
#include "kernels/cuda/dense/matmul_few_rows.cuh"

#include <cmath>
#include <limits>

#include "kernels/cuda/dense/pack_weight.cuh"
#include "tests/kernels/cuda/dense/emulated.h"
#include "tests/kernels/dense/weights.h"

namespace rondo::cuda {
namespace {

using testing::Fill;

template <WeightType kType>
std::vector<uint8_t> Packed(const WeightView& weight, const HowToRun& how = {}) {
  const auto rows = static_cast<int32_t>(weight.rows), cols = static_cast<int32_t>(weight.cols);
  auto packed = Poisoned<uint8_t>(PackedWeight<kType>(rows, cols).bytes());
  const auto* bytes = reinterpret_cast<const uint8_t*>(weight.data);
  const std::vector<uint8_t> file(bytes, bytes + weight.rows * weight.row_bytes);
  EmulatedLaunch launch(how);
  const PackArgs args{.weight = launch.In(file, "weight"),
                      .row_bytes = static_cast<int64_t>(weight.row_bytes),
                      .packed = launch.Out(packed, "packed"),
                      .rows = rows,
                      .cols = cols};
  launch.Run(kPackThreads, 0, [&] { PackWeight<kType>(args); });
  return packed;
}

template <WeightType kType, class X>
struct Product {
  using Memory = typename Kept<X>::Memory;

  Product(int64_t rows, int64_t cols, Fill fill = Fill::kRandom) : random(static_cast<uint64_t>(rows * 7919 + cols)) {
    weights = testing::MakeWeights(kType, rows, cols, fill, random);
    packed = Packed<kType>(weights.view);
  }

  // y [count, rows] of x [count, cols]; Y: float or gpu::Bf16.
  template <class Y = float>
  std::vector<typename Kept<Y>::Memory> Run(const std::vector<Memory>& x, const HowToRun& how = {}) const {
    const int64_t count = static_cast<int64_t>(x.size()) / weights.view.cols;
    auto y = Poisoned<typename Kept<Y>::Memory>(count * weights.view.rows);
    EmulatedLaunch launch(how);
    const MatMulFewRowsArgs args{.packed = launch.In(packed, "packed"),
                                 .x = launch.In(x, "x"),
                                 .y = launch.Out(y, "y"),
                                 .y_is_float = Kept<Y>::kIsFloat,
                                 .count = count,
                                 .rows = static_cast<int32_t>(weights.view.rows),
                                 .cols = static_cast<int32_t>(weights.view.cols)};
    launch.Run(kFewRowsThreads, kFewRowsSharedBytes, [&] { MatMulFewRows<kType, X>(args); });
    return y;
  }

  std::vector<Memory> Rows(int64_t count, uint64_t seed = 1) const {
    return Kept<X>::From(Uniform(count * weights.view.cols, 2, seed));
  }

  void ExpectRight(int64_t count, const HowToRun& how = {}) const {
    const std::vector<Memory> x = Rows(count);
    const std::vector<float> y = Run(x, how);
    const std::vector<double> w = testing::Decode(weights.view);
    const int64_t rows = weights.view.rows, cols = weights.view.cols;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < cols; ++k) {
          const double product = w[r * cols + k] * Kept<X>::To(x[i * cols + k]);
          sum += product;
          size += std::fabs(product);
        }
        // Some forty roundings of float32, far below those of bf16. 1e-4: minima cancel against products.
        ASSERT_NEAR(sum, y[i * rows + r], 2e-6 * size + 1e-4)
            << testing::TypeName(kType) << " " << rows << " x " << cols << ", row " << i << " of " << count
            << ", output " << r;
      }
    }
  }

  std::mt19937_64 random;
  testing::Weights weights;
  std::vector<uint8_t> packed;
};

template <WeightType kType, class X>
void OddSizes() {
  constexpr int64_t kBlock = WeightBlock<kType>::kElements;
  for (const int64_t blocks : {1, 3, 11, 18}) {
    if (kBlock * blocks > 3000) continue;
    Product<kType, X>(21, kBlock * blocks).ExpectRight(3);
  }
  for (const int64_t rows : {1, 16, 33, 70}) Product<kType, X>(rows, kBlock * 2).ExpectRight(8);
  for (const int64_t count : {0, 1, 5, 9, 17}) Product<kType, X>(18, kBlock * 3).ExpectRight(count);
  Product<kType, X>(20, kBlock * 3, Fill::kExtreme).ExpectRight(2);
}

TEST(CudaMatMulFewRows, Q4_1) {
  OddSizes<WeightType::kQ4_1, gpu::Bf16>();
  OddSizes<WeightType::kQ4_1, float>();
}
TEST(CudaMatMulFewRows, Q8_0) {
  OddSizes<WeightType::kQ8_0, gpu::Bf16>();
  OddSizes<WeightType::kQ8_0, float>();
}
TEST(CudaMatMulFewRows, Q4_K) {
  OddSizes<WeightType::kQ4_K, gpu::Bf16>();
  OddSizes<WeightType::kQ4_K, float>();
}

// All groups of a long row: every warp has several, some one more than others.
TEST(CudaMatMulFewRows, LongRows) {
  Product<WeightType::kQ4_1, gpu::Bf16>(3, 32 * 77).ExpectRight(2);
  Product<WeightType::kQ8_0, float>(3, 32 * 77).ExpectRight(2);
  Product<WeightType::kQ4_K, gpu::Bf16>(3, 256 * 11).ExpectRight(2);
}

// One column at a time, so that nothing but the activation's own bits is in question.
TEST(CudaMatMulFewRows, FloatRowsKeepAllTheirBits) {
  const Product<WeightType::kQ8_0, float> product(17, 64);
  const std::vector<double> w = testing::Decode(product.weights.view);
  for (const int64_t col : {0, 7, 41, 63}) {
    for (const float value : {1.00000012f, -1.2345678f, 3.1415927e-6f, 16777215.0f}) {
      std::vector<float> x(64);
      x[col] = value;
      const std::vector<float> y = product.Run(x);
      for (int64_t r = 0; r < 17; ++r) {
        const double expected = w[r * 64 + col] * value;
        ASSERT_NEAR(expected, y[r], std::fabs(expected) * 0x1p-22) << "column " << col << " output " << r;
      }
    }
  }
}

TEST(CudaMatMulFewRows, BitsOfFloatAndBf16ResultsAgree) {
  const Product<WeightType::kQ4_1, gpu::Bf16> product(37, 160);
  const auto x = product.Rows(4);
  EXPECT_TRUE(SameBits(Kept<gpu::Bf16>::From(product.Run(x)), product.Run<gpu::Bf16>(x)));
}

template <WeightType kType, class X>
void ExpectRowsBitsAreTheirOwn() {
  const Product<kType, X> product(35, WeightBlock<kType>::kElements == 256 ? 1280 : 1184);
  const int64_t rows = 35, cols = product.weights.view.cols;
  const auto x = product.Rows(11, 5);
  const std::vector<float> all = product.Run(x);
  for (const int ctas : {1, 2, 7}) EXPECT_TRUE(SameBits(all, product.Run(x, {.ctas = ctas}))) << ctas;
  for (const int64_t count : {1, 5, 8}) {
    for (int64_t begin = 0; begin + count <= 11; ++begin) {
      const std::vector<float> some = product.Run(RowsOf(x, cols, begin, begin + count), {.ctas = 2});
      EXPECT_TRUE(SameBits(some, RowsOf(all, rows, begin, begin + count))) << count << " from " << begin;
    }
  }
}

TEST(CudaMatMulFewRows, ARowsBitsAreItsOwn) {
  ExpectRowsBitsAreTheirOwn<WeightType::kQ4_1, gpu::Bf16>();
  ExpectRowsBitsAreTheirOwn<WeightType::kQ4_1, float>();
  ExpectRowsBitsAreTheirOwn<WeightType::kQ8_0, gpu::Bf16>();
  ExpectRowsBitsAreTheirOwn<WeightType::kQ4_K, gpu::Bf16>();
}

TEST(CudaMatMulFewRows, NotANumberPoisonsItsRowOnly) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const Product<WeightType::kQ4_1, float> product(20, 96);
    std::vector<float> x = product.Rows(4);
    const std::vector<float> clean = product.Run(x);
    x[2 * 96 + 50] = bad;
    const std::vector<float> y = product.Run(x);
    for (int i = 0; i < 4 * 20; ++i) {
      if (i / 20 == 2) {
        EXPECT_FALSE(std::isfinite(y[i])) << i;
      } else {
        EXPECT_EQ(clean[i], y[i]) << i;
      }
    }
  }
}

TEST(CudaMatMulFewRows, EverySchedule) {
  const Product<WeightType::kQ4_1, gpu::Bf16> product(70, 1312);
  for (const simt::Options& options : simt::AllSchedules(13)) {
    if (!options.slow_copies || !options.slow_tensor_core) continue;  // there are neither
    product.ExpectRight(3, {.options = options, .ctas = 2});
  }
}

TEST(CudaMatMulFewRows, PackingDoesNotDependOnTheGrid) {
  const Product<WeightType::kQ4_K, gpu::Bf16> product(70, 768);
  EXPECT_TRUE(SameBits(product.packed, Packed<WeightType::kQ4_K>(product.weights.view, {.ctas = 1})));
}

}  // namespace
}  // namespace rondo::cuda
