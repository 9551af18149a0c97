#include "cli/logits_compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace rondo::cli {
namespace {

LogitsTable Table(const std::vector<std::vector<float>>& rows) {
  LogitsTable table;
  for (size_t step = 0; step < rows.size(); ++step) {
    const std::string_view bytes(reinterpret_cast<const char*>(rows[step].data()), rows[step].size() * sizeof(float));
    // In two pieces, as a long row arrives.
    EXPECT_TRUE(table.Append(step, 0, bytes.substr(0, 4)).ok());
    EXPECT_TRUE(table.Append(step, 1, bytes.substr(4)).ok());
  }
  return table;
}

TEST(CompareLogits, EqualBitsAreEqual) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const LogitsDifference d = CompareLogits(Table({{1, 2}, {3, nan}}), Table({{1, 2}, {3, nan}}));
  EXPECT_TRUE(d.same_shape);
  EXPECT_EQ(d.different, 0u);
  EXPECT_EQ(d.largest_absolute, 0);
}

TEST(CompareLogits, FindsTheFirstBitAndTheLargestDifference) {
  // Row 1 of the reference has mean 2 and standard deviation 2.
  const LogitsDifference d = CompareLogits(Table({{1, 2}, {0.5f, 4}}), Table({{1, 2}, {0, 4}}));
  EXPECT_EQ(d.different, 1u);
  EXPECT_EQ(d.first_step, 1u);
  EXPECT_EQ(d.first_token, 0u);
  EXPECT_DOUBLE_EQ(d.largest_absolute, 0.5);
  EXPECT_DOUBLE_EQ(d.largest_relative, 0.25);
}

TEST(CompareLogits, SignedZerosAndNanDiffer) {
  EXPECT_EQ(CompareLogits(Table({{0.0f, 1}}), Table({{-0.0f, 1}})).different, 1u);
  const LogitsDifference d = CompareLogits(Table({{std::nanf(""), 1, 2}}), Table({{0, 1, 2}}));
  EXPECT_TRUE(std::isinf(d.largest_absolute));
}

TEST(CompareLogits, OtherShapesAreNotCompared) {
  EXPECT_FALSE(CompareLogits(Table({{1, 2}}), Table({{1, 2}, {3, 4}})).same_shape);
  EXPECT_FALSE(CompareLogits(Table({{1, 2, 3}}), Table({{1, 2}})).same_shape);
  EXPECT_TRUE(CompareCommonRows(Table({{1, 2}, {3, 4}}), Table({{1, 2}})).same_shape);
  EXPECT_EQ(CompareCommonRows(Table({{1, 2}, {3, 4}}), Table({{1, 5}})).different, 1u);
}

TEST(LogitsTable, RefusesGaps) {
  LogitsTable table;
  EXPECT_FALSE(table.Append(1, 0, "abcd").ok());
  EXPECT_TRUE(table.Append(0, 0, "abcd").ok());
  EXPECT_FALSE(table.Append(0, 2, "abcd").ok());
  EXPECT_FALSE(table.Append(0, 1, "abc").ok());
}

}  // namespace
}  // namespace rondo::cli
