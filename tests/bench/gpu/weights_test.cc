// The GPU check's reader of quantised weights against the one that the dense kernels' tests are held to; the two share
// no code.
#include "bench/gpu/dense/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/dense/weights.h"

namespace rondo::gpu_check {
namespace {

TEST(GpuCheckWeights, AreReadAsGgmlReadsThem) {
  for (const WeightType type : kFewRowTypes) {
    SCOPED_TRACE(NameOf(type));
    constexpr int64_t kRows = 3, kCols = 512;
    std::mt19937_64 random(1);
    const testing::Weights theirs = testing::MakeWeights(type, kRows, kCols, testing::Fill::kRandom, random);
    const std::vector<uint8_t> ours = RandomWeights(type, kRows, kCols, 2);
    ASSERT_EQ(static_cast<size_t>(RowBytes(type, kCols)), theirs.view.row_bytes);
    ASSERT_EQ(ours.size(), theirs.bytes.size());
    WeightView view = theirs.view;
    for (const std::byte* data : {theirs.view.data, reinterpret_cast<const std::byte*>(ours.data())}) {
      view.data = data;
      const std::vector<double> want = testing::Decode(view);
      double largest = 0;
      for (int64_t row = 0; row < kRows; ++row) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(data) + row * RowBytes(type, kCols);
        const std::vector<double> got = RowValues(type, bytes, kCols);
        for (int64_t i = 0; i < kCols; ++i) {
          ASSERT_NEAR(got[i], want[row * kCols + i], 1e-6 * std::fabs(want[row * kCols + i]) + 1e-9)
              << row << ", " << i;
          largest = std::max(largest, std::fabs(got[i]));
        }
      }
      if (data == theirs.view.data) continue;
      EXPECT_GT(largest, 0.1);
      EXPECT_LT(largest, 4);
    }
  }
}

}  // namespace
}  // namespace rondo::gpu_check
