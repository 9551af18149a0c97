// RMS norm with its residual addition: against float64, and a row's bits whatever comes along.
#include "kernels/cuda/dense/rms_norm.cuh"

#include <cmath>

#include "tests/kernels/cuda/dense/emulated.h"

namespace rondo::cuda {
namespace {

constexpr float kEps = 1e-5f;

template <class Addend, class Out>
struct Case {
  using AddendMemory = typename Kept<Addend>::Memory;
  using OutMemory = typename Kept<Out>::Memory;

  Case(int64_t rows_of_case, int32_t cols_of_case, float magnitude = 3)
      : rows(rows_of_case),
        cols(cols_of_case),
        x(Uniform(rows * cols, magnitude, 1)),
        addend(Kept<Addend>::From(Uniform(rows * cols, magnitude, 2))),
        gain(Uniform(cols, 2, 3)) {}

  struct Result {
    std::vector<float> x;
    std::vector<OutMemory> out;
    bool operator==(const Result& o) const { return SameBits(x, o.x) && SameBits(out, o.out); }
  };

  // Of rows [begin, end).
  Result Run(bool add, int64_t begin, int64_t end, const HowToRun& how = {}) const {
    Result result{RowsOf(x, cols, begin, end), Poisoned<OutMemory>((end - begin) * cols)};
    const std::vector<AddendMemory> more = RowsOf(addend, cols, begin, end);
    EmulatedLaunch launch(how);
    const RmsNormArgs args{.x = launch.Out(result.x, "x"),
                           .addend = add ? launch.In(more, "addend") : nullptr,
                           .gain = launch.In(gain, "gain"),
                           .out = launch.Out(result.out, "out"),
                           .rows = end - begin,
                           .cols = cols,
                           .eps = kEps};
    launch.Run(kNormThreads, kNormSharedBytes, [&] { RmsNorm<Addend, Out>(args); });
    return result;
  }

  void ExpectRight(bool add, const HowToRun& how = {}) const {
    const Result got = Run(add, 0, rows, how);
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      std::vector<double> added;
      for (int64_t i = row * cols; i < (row + 1) * cols; ++i) {
        const float value = add ? x[i] + Kept<Addend>::To(addend[i]) : x[i];
        ASSERT_EQ(value, got.x[i]) << cols << " columns, element " << i;
        sum += double{value} * value;
        added.push_back(value);
      }
      const double factor = 1 / std::sqrt(sum / cols + double{kEps});
      for (int32_t i = 0; i < cols; ++i) {
        const double expected = added[i] * factor * gain[i];
        // A few roundings of float32, and the one to memory.
        ASSERT_NEAR(expected, Kept<Out>::To(got.out[row * cols + i]),
                    std::fabs(expected) * (4e-7 + Kept<Out>::kRounding) + 1e-7 * !Kept<Out>::kIsFloat)
            << cols << " columns, row " << row << " element " << i;
      }
    }
  }

  int64_t rows;
  int32_t cols;
  std::vector<float> x;
  std::vector<AddendMemory> addend;
  std::vector<float> gain;
};

TEST(CudaRmsNorm, OddSizes) {
  for (const int32_t cols : {4, 36, 100, 576, 1028, 1500, 4100}) {
    Case<float, float>(3, cols).ExpectRight(false);
    Case<float, float>(3, cols).ExpectRight(true);
  }
}

TEST(CudaRmsNorm, EveryType) {
  Case<float, gpu::Bf16>(5, 580).ExpectRight(true);
  Case<float, gpu::Fp16>(5, 580).ExpectRight(true);
  Case<gpu::Bf16, gpu::Bf16>(5, 580).ExpectRight(true);
  Case<gpu::Fp16, gpu::Fp16>(5, 580).ExpectRight(true);
}

TEST(CudaRmsNorm, SmallAndLargeRows) {
  for (const float magnitude : {1e-4f, 1e4f}) Case<float, float>(2, 576, magnitude).ExpectRight(true);
}

TEST(CudaRmsNorm, EverySchedule) {
  for (const simt::Options& options : simt::AllSchedules(5)) {
    Case<gpu::Bf16, float>(4, 1100).ExpectRight(true, {.options = options, .ctas = 2});
  }
}

TEST(CudaRmsNorm, InPlace) {
  const Case<float, float> c(5, 1500);
  std::vector<float> x = c.x;
  const std::vector<float> gain = c.gain;
  EmulatedLaunch launch({});
  const RmsNormArgs args{
      .x = launch.Out(x, "x"), .gain = launch.In(gain, "gain"), .out = x.data(), .rows = 5, .cols = 1500, .eps = kEps};
  launch.Run(kNormThreads, kNormSharedBytes, [&] { RmsNorm<float, float>(args); });
  EXPECT_TRUE(SameBits(x, c.Run(false, 0, 5).out));
}

TEST(CudaRmsNorm, NoRows) { Case<float, float>(0, 64).ExpectRight(true); }

TEST(CudaRmsNorm, ARowsBitsAreItsOwn) {
  const Case<float, gpu::Bf16> all(8, 1500);
  const auto eight = all.Run(true, 0, 8);
  for (const int ctas : {1, 2, 7, 9}) EXPECT_TRUE(all.Run(true, 0, 8, {.ctas = ctas}) == eight) << ctas;
  for (const int64_t count : {1, 5}) {
    for (int64_t begin = 0; begin + count <= 8; ++begin) {
      const auto some = all.Run(true, begin, begin + count, {.ctas = 2});
      EXPECT_TRUE(SameBits(some.out, RowsOf(eight.out, all.cols, begin, begin + count))) << begin << " " << count;
      EXPECT_TRUE(SameBits(some.x, RowsOf(eight.x, all.cols, begin, begin + count))) << begin << " " << count;
    }
  }
}

}  // namespace
}  // namespace rondo::cuda
