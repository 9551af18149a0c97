#include "cli/bench/power_fit.h"

#include <gtest/gtest.h>

namespace rondo::cli {
namespace {

TEST(PowerFit, FindsAnExactLaw) {
  const auto fit = FitPower({{1, 3}, {2, 12}, {4, 48}, {10, 300}});  // 3 x^2
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->exponent, 2, 1e-12);
  EXPECT_NEAR(fit->factor, 3, 1e-12);
  EXPECT_NEAR(fit->At(5), 75, 1e-10);
}

TEST(PowerFit, IsLeastSquaresInLogLog) {
  // In powers of two: x 0, 1, 2 and y 0, 2, 3. Mean of x 1, of y 5/3; slope (0*0 + ... ) = 3/2, y at 0 is 5/3 - 3/2.
  const auto fit = FitPower({{1, 1}, {2, 4}, {4, 8}});
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->exponent, 1.5, 1e-12);
  EXPECT_NEAR(fit->factor, std::exp2(1.0 / 6), 1e-12);
}

TEST(PowerFit, LeavesOutWhatHasNoLogarithm) {
  const auto fit = FitPower({{1, 1}, {2, 2}, {4, 0}, {0, 7}});
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->exponent, 1, 1e-12);
}

TEST(PowerFit, NeedsTwoDifferentPoints) {
  EXPECT_FALSE(FitPower({}).has_value());
  EXPECT_FALSE(FitPower({{3, 5}}).has_value());
  EXPECT_FALSE(FitPower({{3, 5}, {3, 6}}).has_value());
}

}  // namespace
}  // namespace rondo::cli
