// Positions far beyond what float arithmetic can place on the circle.
#include "kernels/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rondo {
namespace {

ModelConfig Config(int32_t rotated, double base) {
  ModelConfig config;
  config.rotated = rotated;
  config.head_dim = rotated;
  config.rope_base = base;
  return config;
}

TEST(RopeTable, FirstPairTurnsByThePositionItself) {
  const RopeTable table(Config(8, 10000));
  // cos(n), sin(n) from tables.
  const struct {
    int64_t position;
    double cos, sin;
  } known[] = {{0, 1, 0},
               {1, 0.54030230586813972, 0.84147098480789651},
               {257, 0.8193, -0.5734},
               {1023, 0.4001, -0.9165},
               {1000000, 0.93675212753314474, -0.34999350217129294}};
  for (const auto& k : known) {
    float cos[4], sin[4];
    const PositionRun run{k.position, k.position + 1};
    table.Fill({&run, 1}, cos, sin);
    const double tolerance = k.position == 257 || k.position == 1023 ? 5.1e-5 : 6e-8;
    EXPECT_NEAR(k.cos, cos[0], tolerance) << k.position;
    EXPECT_NEAR(k.sin, sin[0], tolerance) << k.position;
  }
}

TEST(RopeTable, AgreesWithLongDoubleAtFarPositions) {
  ModelConfig config = Config(64, 500000);
  config.rope_linear_factor = 2;
  config.rope_divisors.assign(32, 1.0f);
  config.rope_divisors[31] = 8;
  const RopeTable table(config);
  for (int64_t position : {int64_t{3}, int64_t{8191}, int64_t{131071}, int64_t{1000000}}) {
    float cos[32], sin[32];
    const PositionRun run{position, position + 1};
    table.Fill({&run, 1}, cos, sin);
    for (int i = 0; i < 32; ++i) {
      const long double frequency = std::pow(500000.0L, -2.0L * i / 64) / 2 / (i == 31 ? 8 : 1);
      EXPECT_NEAR(static_cast<double>(frequency), table.inverse_frequencies()[i],
                  2e-15 * static_cast<double>(frequency));
      EXPECT_NEAR(static_cast<double>(std::cos(position * frequency)), cos[i], 6.1e-8) << position << " pair " << i;
      EXPECT_NEAR(static_cast<double>(std::sin(position * frequency)), sin[i], 6.1e-8) << position << " pair " << i;
    }
  }
}

TEST(RopeTable, RunsFollowOneAnother) {
  const RopeTable table(Config(6, 10000));
  const PositionRun runs[] = {{5, 7}, {9, 9}, {100, 101}};
  const PositionRun whole{0, 101};
  std::vector<float> cos(9), sin(9), all_cos(303), all_sin(303);
  table.Fill(runs, cos.data(), sin.data());
  table.Fill({&whole, 1}, all_cos.data(), all_sin.data());
  const int64_t positions[] = {5, 6, 100};
  for (int row = 0; row < 3; ++row) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(all_cos[positions[row] * 3 + i], cos[row * 3 + i]);
      EXPECT_EQ(all_sin[positions[row] * 3 + i], sin[row * 3 + i]);
    }
  }
}

}  // namespace
}  // namespace rondo
