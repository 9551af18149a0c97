// The reference decoder's reading of weights against the kernels', which share no code: random blocks of every type.
#include "model/decoder/reference_weights.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/registry.h"

namespace rondo {
namespace {

// Where a block of this type keeps its halves, whose exponents must be tame for the comparison.
std::vector<size_t> HalfOffsets(WeightType type) {
  switch (type) {
    case WeightType::kQ4_1:
    case WeightType::kQ5_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return {0, 2};
    case WeightType::kQ6_K:
      return {208};
    case WeightType::kF32:
    case WeightType::kBF16:
      return {};
    default:
      return {0};
  }
}

TEST(ReferenceRow, AgreesWithEveryKernelSetOnEveryType) {
  uint32_t seed = 7;
  const auto random = [&] { return (seed = seed * 1664525 + 1013904223) >> 16; };
  for (WeightType type :
       {WeightType::kF32, WeightType::kF16, WeightType::kBF16, WeightType::kQ4_0, WeightType::kQ4_1, WeightType::kQ5_0,
        WeightType::kQ5_1, WeightType::kQ8_0, WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K}) {
    const WeightTypeInfo& info = *FindWeightType(type);
    constexpr int64_t kRows = 3, kCols = 512;
    const size_t row_bytes = kCols / info.block_elements * info.block_bytes;
    std::vector<std::byte> data(kRows * row_bytes);
    for (std::byte& b : data) b = static_cast<std::byte>(random());
    for (size_t block = 0; block < data.size(); block += info.block_bytes) {
      // High bytes 0x24 to 0x2f, either sign: magnitudes of 2^-6 to 2^-3.
      for (size_t at : HalfOffsets(type)) {
        data[block + at + 1] = static_cast<std::byte>((random() & 0x80) | (0x24 + random() % 12));
      }
      if (type == WeightType::kF32) data[block + 3] = std::byte{0x3e};
      if (type == WeightType::kBF16) data[block + 1] = std::byte{0x3e};
    }
    const WeightView weight{type, data.data(), kRows, kCols, row_bytes};
    for (const KernelSet& kernels : HostKernels()) {
      double most = 0;
      for (int64_t row = 0; row < kRows; ++row) {
        std::vector<double> expected(kCols);
        std::vector<float> got(kCols);
        ReferenceRow(weight, row, expected.data());
        kernels.dense->DequantiseRow(weight, row, got.data());
        for (int64_t i = 0; i < kCols; ++i) {
          most = std::max(most, std::fabs(expected[i]));
          ASSERT_NEAR(got[i], expected[i], 1e-4) << kernels.name << " " << info.name << " element " << i;
        }
      }
      EXPECT_GT(most, 0.01) << info.name;
    }
  }
}

// Halves and the small formats by hand: 0x3c00 is 1, 0xc000 is -2, 0x0001 is 2^-24.
TEST(ReferenceRow, ReadsHandMadeValues) {
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7bff};
  double out[32];
  ReferenceRow({WeightType::kF16, reinterpret_cast<const std::byte*>(halves), 1, 4, 8}, 0, out);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], -2);
  EXPECT_EQ(out[2], 0x1p-24);
  EXPECT_EQ(out[3], 65504);

  uint8_t q4_1[20] = {0x00, 0x3c, 0x00, 0xc0, 0x5f};  // scale 1, minimum -2, first codes 15 (low) and 5 (high)
  ReferenceRow({WeightType::kQ4_1, reinterpret_cast<const std::byte*>(q4_1), 1, 32, 20}, 0, out);
  EXPECT_EQ(out[0], 13);
  EXPECT_EQ(out[16], 3);
  EXPECT_EQ(out[31], -2);
}

}  // namespace
}  // namespace rondo
