// The matrix products on a real card: against float64, and a row's bits at every place of a batch. What the emulator
// has to take for granted about tensor cores and cuBLASLt is tested here.
#include <cmath>

#include "kernels/cuda/dense/launch.h"
#include "kernels/cuda/dense/lt_matmul.h"
#include "tests/kernels/cuda/dense/card.h"
#include "tests/kernels/dense/weights.h"
#include "tests/testing/simt/small_floats.h"

namespace rondo::cuda {
namespace {

using testing::Fill;

std::vector<uint16_t> RandomBf16(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint16_t> values;
  for (const float f : testing::RandomFloats(count, random)) values.push_back(simt::FloatToBf16(f));
  return values;
}

template <class W>
void ExpectProducts(const std::vector<W>& weight, const std::vector<uint16_t>& x, const std::vector<float>& y,
                    int64_t count, int64_t n, int64_t k) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t r = 0; r < n; ++r) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < k; ++j) {
        const double product = static_cast<double>(weight[r * k + j]) * simt::Bf16ToFloat(x[i * k + j]);
        sum += product;
        size += std::fabs(product);
      }
      // Tensor cores cut off rather than round, so errors add up.
      ASSERT_NEAR(sum, y[i * n + r], 2e-5 * size + 1e-4) << "row " << i << " output " << r;
    }
  }
}

// y [rows, n] of x [rows, k].
template <class Run>
void ExpectRowsBitsAreTheirOwn(const std::vector<uint16_t>& x, const std::vector<float>& y, int64_t n, int64_t k,
                               Run run) {
  const auto count = static_cast<int64_t>(y.size()) / n;
  for (int64_t shift = 0; shift < count; ++shift) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < count; ++i) rows.push_back((i + shift) % count);
    ASSERT_EQ(PickRows(y, n, rows), run(PickRows(x, k, rows))) << "shifted by " << shift;
    ASSERT_EQ(PickRows(y, n, {shift}), run(PickRows(x, k, {shift}))) << "row " << shift << " alone";
  }
}

TEST(CardMatMul, FewRows) {
  if (!HasCard()) GTEST_SKIP() << "no CUDA device";
  for (const WeightType type : {WeightType::kQ4_1, WeightType::kQ8_0, WeightType::kQ4_K}) {
    SCOPED_TRACE(testing::TypeName(type));
    const int32_t n = 70, k = 2304;
    std::mt19937_64 random(1);
    const testing::Weights weights = testing::MakeWeights(type, n, k, Fill::kRandom, random);
    const auto* bytes = reinterpret_cast<const uint8_t*>(weights.bytes.data());
    const OnCard<uint8_t> file(std::vector<uint8_t>(bytes, bytes + weights.bytes.size()));
    const OnCard<uint8_t> packed(static_cast<size_t>(PackedBytes(type, n, k)));
    const auto row_bytes = static_cast<int64_t>(weights.view.row_bytes);
    ASSERT_EQ("", LaunchPackWeight(
                      {.weight = file.data(), .row_bytes = row_bytes, .packed = packed.data(), .rows = n, .cols = k},
                      type, nullptr));
    const auto run = [&](const std::vector<uint16_t>& rows) {
      const auto count = static_cast<int64_t>(rows.size()) / k;
      const OnCard<uint16_t> x(rows);
      const OnCard<float> y(static_cast<size_t>(count * n));
      const MatMulFewRowsArgs args{
          .packed = packed.data(), .x = x.data(), .y = y.data(), .count = count, .rows = n, .cols = k};
      EXPECT_EQ("", LaunchMatMulFewRows(args, type, RowType::kBf16, nullptr));
      return y.Read();
    };
    const std::vector<uint16_t> x = RandomBf16(11 * k, 2);
    const std::vector<float> y = run(x);
    ExpectProducts(testing::Decode(weights.view), x, y, 11, n, k);
    ExpectRowsBitsAreTheirOwn(x, y, n, k, run);
  }
}

TEST(CardMatMul, CublasLt) {
  if (!HasCard()) GTEST_SKIP() << "no CUDA device";
  absl::StatusOr<std::unique_ptr<LtMatMul>> matmul = LtMatMul::Create();
  ASSERT_TRUE(matmul.ok()) << matmul.status();
  const std::pair<int64_t, int64_t> shapes[] = {{576, 576}, {1536, 576}, {4096, 4096}, {1024, 14336}};
  for (const auto& [n_of_shape, k_of_shape] : shapes) {
    const int64_t n = n_of_shape, k = k_of_shape;
    SCOPED_TRACE(n);
    const std::vector<uint16_t> w = RandomBf16(n * k, 3);
    const OnCard<uint16_t> weight(w);
    const auto run = [&](std::vector<uint16_t> rows) {
      const auto count = static_cast<int64_t>(rows.size()) / k;
      rows.resize(LtPaddedRows(count) * k, 0x7fff);  // NaN
      const OnCard<uint16_t> x(rows);
      const OnCard<float> y(static_cast<size_t>(LtPaddedRows(count) * n));
      const absl::Status status = (*matmul)->Run(
          {.weight = weight.data(), .x = x.data(), .y = y.data(), .rows = count, .n = n, .k = k}, nullptr);
      EXPECT_TRUE(status.ok()) << status;
      std::vector<float> padded = y.Read();
      padded.resize(static_cast<size_t>(count * n));
      return padded;
    };
    const std::vector<uint16_t> x = RandomBf16(150 * k, 4);
    const std::vector<float> y = run(x);
    std::vector<float> widened;
    for (const uint16_t bits : w) widened.push_back(simt::Bf16ToFloat(bits));
    ExpectProducts(widened, x, y, 2, n, k);
    ExpectRowsBitsAreTheirOwn(x, y, n, k, run);
  }
}

}  // namespace
}  // namespace rondo::cuda
