// The kernels of whole rows on a real card: the bits of the CPU family where those are promised, float64 elsewhere.
#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "kernels/cpu/dense/factories.h"
#include "kernels/cuda/dense/launch.h"
#include "kernels/cuda/dense/ranked_token.h"
#include "tests/kernels/cuda/dense/card.h"
#include "tests/kernels/dense/weights.h"

namespace rondo::cuda {
namespace {

std::vector<float> Floats(int64_t count, float magnitude, uint64_t seed) {
  std::mt19937_64 random(seed);
  return testing::RandomFloats(count, random, magnitude);
}

TEST(CardRows, Dequantise) {
  if (!HasCard()) GTEST_SKIP() << "no CUDA device";
  for (const WeightType type : testing::kAllWeightTypes) {
    std::mt19937_64 random(5);
    const testing::Weights weights = testing::MakeWeights(type, 7, 1024, testing::Fill::kRandom, random);
    const auto* bytes = reinterpret_cast<const uint8_t*>(weights.bytes.data());
    const OnCard<uint8_t> file(std::vector<uint8_t>(bytes, bytes + weights.bytes.size()));
    const std::vector<int32_t> ids = {6, 0, 3};
    const OnCard<int32_t> ids_on_card(ids);
    const OnCard<float> out(ids.size() * 1024);
    const DequantiseArgs args{.weight = file.data(),
                              .row_bytes = static_cast<int64_t>(weights.view.row_bytes),
                              .ids = ids_on_card.data(),
                              .out = out.data(),
                              .rows = 3,
                              .cols = 1024};
    ASSERT_EQ("", LaunchDequantise(args, type, RowType::kF32, nullptr));
    std::vector<float> expected(ids.size() * 1024);
    for (size_t i = 0; i < ids.size(); ++i) {
      PortableDense()->DequantiseRow(weights.view, ids[i], expected.data() + i * 1024);
    }
    EXPECT_EQ(expected, out.Read()) << testing::TypeName(type);
  }
}

TEST(CardRows, RopeAndActivationsHaveTheBitsOfTheCpuFamily) {
  if (!HasCard()) GTEST_SKIP() << "no CUDA device";
  ThreadPool pool(1);
  const int64_t rows = 9;
  const int32_t heads = 5, head_dim = 96, rotated = 64;
  const std::vector<float> cos = Floats(rows * rotated / 2, 1, 6), sin = Floats(rows * rotated / 2, 1, 7);
  const OnCard<float> cos_on_card(cos), sin_on_card(sin);
  for (const RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalves}) {
    std::vector<float> x = Floats(rows * heads * head_dim, 2, 8);
    const OnCard<float> x_on_card(x);
    const RopeArgs args{.x = x_on_card.data(),
                        .cos = cos_on_card.data(),
                        .sin = sin_on_card.data(),
                        .row_stride = heads * head_dim,
                        .rows = rows,
                        .heads = heads,
                        .head_dim = head_dim,
                        .rotated = rotated};
    ASSERT_EQ("", LaunchRope(args, RowType::kF32, pairing, nullptr));
    PortableDense()->Rope(x.data(), rows, heads, head_dim, pairing, cos.data(), sin.data(), rotated, pool);
    EXPECT_EQ(x, x_on_card.Read());
  }
  const std::vector<float> gate = Floats(4096, 40, 9), up = Floats(4096, 3, 10);
  const OnCard<float> gate_on_card(gate), up_on_card(up);
  for (const GateKind kind : {GateKind::kSilu, GateKind::kGeluTanh}) {
    const OnCard<float> out(size_t{4096});
    const GatedActivationArgs args{.gate = gate_on_card.data(),
                                   .up = up_on_card.data(),
                                   .in_stride = 1024,
                                   .out = out.data(),
                                   .rows = 4,
                                   .cols = 1024};
    ASSERT_EQ("", LaunchGatedActivation(args, RowType::kF32, RowType::kF32, kind, nullptr));
    std::vector<float> expected(4096);
    PortableDense()->GatedActivation(kind, gate.data(), up.data(), 4096, expected.data(), pool);
    EXPECT_EQ(expected, out.Read());
  }
}

TEST(CardRows, RmsNorm) {
  if (!HasCard()) GTEST_SKIP() << "no CUDA device";
  const int32_t cols = 4100;
  const std::vector<float> x = Floats(300 * cols, 3, 11), gain = Floats(cols, 2, 12);
  const OnCard<float> gain_on_card(gain);
  const auto run = [&](const std::vector<float>& rows) {
    const OnCard<float> in(rows), out(rows.size());
    const RmsNormArgs args{.x = in.data(),
                           .gain = gain_on_card.data(),
                           .out = out.data(),
                           .rows = static_cast<int64_t>(rows.size()) / cols,
                           .cols = cols,
                           .eps = 1e-5f};
    EXPECT_EQ("", LaunchRmsNorm(args, RowType::kF32, RowType::kF32, nullptr));
    return out.Read();
  };
  const std::vector<float> y = run(x);
  for (const int64_t row : {0, 7, 299}) {
    EXPECT_EQ(PickRows(y, cols, {row}), run(PickRows(x, cols, {row})));
    double sum = 0;
    for (int32_t i = 0; i < cols; ++i) sum += double{x[row * cols + i]} * x[row * cols + i];
    for (int32_t i = 0; i < cols; ++i) {
      const double expected = x[row * cols + i] / std::sqrt(sum / cols + 1e-5) * gain[i];
      ASSERT_NEAR(expected, y[row * cols + i], std::fabs(expected) * 1e-6) << row << " " << i;
    }
  }
}

TEST(CardRows, Ranking) {
  if (!HasCard()) GTEST_SKIP() << "no CUDA device";
  const int32_t count = 128256, k = 64;
  std::vector<float> logits = Floats(2 * count, 12, 13);
  for (float& l : logits) l = std::round(l * 100) / 100;  // ties
  const OnCard<float> on_card(logits);
  const OnCard<uint64_t> scratch(static_cast<size_t>(TopKScratchBytes(2, count, k) / 8)), top(size_t{2 * k}),
      best(size_t{2});
  ASSERT_EQ("", LaunchTopK(on_card.data(), 2, count, k, scratch.data(), top.data(), nullptr));
  ASSERT_EQ("", LaunchArgmax(on_card.data(), 2, count, best.data(), nullptr));
  const std::vector<uint64_t> ranks = top.Read(), first = best.Read();
  for (int row = 0; row < 2; ++row) {
    std::vector<int32_t> ids(count);
    for (int32_t i = 0; i < count; ++i) ids[i] = i;
    const float* of_row = logits.data() + row * count;
    std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return of_row[a] > of_row[b]; });
    EXPECT_EQ(ids[0], TokenOfRank(first[row]).id);
    for (int i = 0; i < k; ++i) EXPECT_EQ(ids[i], TokenOfRank(ranks[row * k + i]).id) << i;
  }
}

}  // namespace
}  // namespace rondo::cuda
