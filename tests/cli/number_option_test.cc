// Numbers on the command line: what is refused, in one short line with the value and the limits.
#include "cli/number_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rondo::cli {
namespace {

std::string Refusal(CLI::Validator validator, std::string text) { return validator(text); }

TEST(NumberOption, TakesBothLimitsAndNothingBeyond) {
  const auto count = [](const char* text) { return Refusal(Between(int64_t{0}, int64_t{2147483647}), text); };
  for (const char* good : {"0", "2147483647", "12"}) EXPECT_EQ(count(good), "") << good;
  for (const char* bad : {"-1", "2147483648", "99999999999999999999", "1.5", "", "many", "nan"}) {
    EXPECT_EQ(count(bad), std::string(bad) + " is not a whole number from 0 to 2147483647");
  }
}

TEST(NumberOption, ARangeHoldsNeitherNanNorInfinity) {
  const auto rate = [](const char* text) { return Refusal(Between(1.0, 1e24), text); };
  for (const char* good : {"1", "1e24", "2.5e13"}) EXPECT_EQ(rate(good), "") << good;
  for (const char* bad : {"0", "-1", "1e25", "1e400", "inf", "-inf", "nan", "fast"}) {
    EXPECT_EQ(rate(bad), std::string(bad) + " is not a number from 1 to 1e+24");
  }
  const auto scale = [](const char* text) { return Refusal(Between(1e-6f, 1e6f), text); };
  EXPECT_EQ(scale("1e-6"), "");
  for (const char* bad : {"0", "1e-50", "-0.1", "nan"}) {
    EXPECT_EQ(scale(bad), std::string(bad) + " is not a number from 1e-06 to 1e+06");
  }
}

}  // namespace
}  // namespace rondo::cli
