// The deterministic double functions against libm's long double ones, which carry eleven more bits.
#include "base/det_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace rondo {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(DetMath, SinCos) {
  std::mt19937_64 random(1);
  const double limits[] = {1, 100, 1e4, 131072, 1e7, 1e12};
  for (double limit : limits) {
    std::uniform_real_distribution<double> angles(-limit, limit);
    for (int i = 0; i < 20000; ++i) {
      const double x = i == 0 ? limit : (i % 3 == 0 ? std::nearbyint(angles(random)) : angles(random));
      double s, c;
      SinCos(x, &s, &c);
      const double tolerance = limit > 1e7 ? 1e-12 : 3e-16;
      ASSERT_NEAR(static_cast<double>(std::sin(static_cast<long double>(x))), s, tolerance) << x;
      ASSERT_NEAR(static_cast<double>(std::cos(static_cast<long double>(x))), c, tolerance) << x;
    }
  }
  double s, c;
  SinCos(355, &s, &c);  // 355 / 113 is nearly pi: the worst small cancellation; sin(355) = -3.0144353359488e-5
  EXPECT_NEAR(-3.0144353359488449e-5, s, 1e-20);
  SinCos(kInf, &s, &c);
  EXPECT_TRUE(std::isnan(s) && std::isnan(c));
}

TEST(DetMath, ExponentialsAndLogarithm) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponents(-700, 700);
  for (int i = 0; i < 50000; ++i) {
    const double x = exponents(random);
    const double exp2 = static_cast<double>(std::exp2(static_cast<long double>(x)));
    const double exp = static_cast<double>(std::exp(static_cast<long double>(x)));
    ASSERT_NEAR(exp2, Exp2(x), exp2 * 1e-15) << x;
    ASSERT_NEAR(exp, Exp(x), exp * 1e-15) << x;
    const double y = Exp2(x);
    ASSERT_NEAR(static_cast<double>(std::log2(static_cast<long double>(y))), Log2(y), 1e-15 * std::fabs(x) + 1e-15);
  }
  EXPECT_EQ(1.0, Exp(0));
  EXPECT_EQ(1024.0, Exp2(10));
  EXPECT_EQ(0x1p-1022, Exp2(-1022));
  EXPECT_EQ(0x1p1023, Exp2(1023));
  EXPECT_EQ(kInf, Exp2(1024));
  EXPECT_EQ(0.0, Exp2(-1080));
  EXPECT_EQ(0.0, Exp2(-kInf));
  EXPECT_EQ(kInf, Exp(kInf));
  EXPECT_EQ(0.0, Exp(-1e300));
  EXPECT_TRUE(std::isnan(Exp(std::nan(""))));
  EXPECT_EQ(3.0, Log2(8));
  EXPECT_EQ(0.0, Log2(1));
  EXPECT_NEAR(1e-5, Pow(1e5, -1), 1e-19);
}

}  // namespace
}  // namespace rondo
