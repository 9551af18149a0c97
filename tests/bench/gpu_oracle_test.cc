// The GPU check's float64 rows, error units and fold against values worked out by hand: what judges the kernels is
// judged here, where there is no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bf16.h"
#include "bench/gpu/fold.h"
#include "bench/gpu/oracle.h"

namespace rondo::gpu_check {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

HeadRows Rows(const std::vector<float>& values) {
  HeadRows rows;
  for (const float value : values) rows.push_back(FloatToBf16(value));
  return rows;
}

const OracleMask kNone{.causal = false};
const HeadRows kKeys = Rows({1, 0, 0, 1, 1, 1});    // three keys of two elements
const HeadRows kValues = Rows({8, 0, 0, 4, 2, 2});  // and their values

TEST(Oracle, SoftmaxByHand) {
  // q = (ln 2, ln 4): scores ln 2, ln 4, ln 8; weights 2, 4, 8 of 14.
  const std::vector<float> q = {std::log(2.0f), std::log(4.0f)};
  const OracleRow row = AttendRow(q, kKeys, kValues, 0, kNone, {});
  EXPECT_NEAR(row.out[0], (2 * 8 + 8 * 2) / 14.0, 1e-6);
  EXPECT_NEAR(row.out[1], (4 * 4 + 8 * 2) / 14.0, 1e-6);
  EXPECT_NEAR(row.lse, std::log(14.0), 1e-6);
}

TEST(Oracle, WeightCountsValuesWithoutSign) {
  const OracleRow row = AttendRow({0, 0}, kKeys, Rows({3, 1, -3, 1, 0, 1}), 0, kNone, {});
  EXPECT_NEAR(row.out[0], 0, 1e-12);
  EXPECT_NEAR(row.weight[0], 2, 1e-12);
}

TEST(Oracle, CausalRowSeesItselfAndWhatIsBefore) {
  const OracleRow row = AttendRow({0, 0}, kKeys, kValues, 1, {}, {});
  EXPECT_NEAR(row.out[0], 4, 1e-12);
  EXPECT_NEAR(row.out[1], 2, 1e-12);
  EXPECT_NEAR(row.lse, std::log(2.0), 1e-12);
}

TEST(Oracle, MasksInWords) {
  EXPECT_TRUE(Sees({}, 5, 5));
  EXPECT_FALSE(Sees({}, 5, 6));
  EXPECT_TRUE(Sees({.causal = true, .window = 3}, 5, 3));
  EXPECT_FALSE(Sees({.causal = true, .window = 3}, 5, 2));
  EXPECT_TRUE(Sees({.causal = false, .window = 3}, 5, 7));
  EXPECT_FALSE(Sees({.causal = false, .window = 3}, 5, 8));
  EXPECT_FALSE(Sees({.causal = false, .visible_begin = 4}, 5, 3));
  EXPECT_FALSE(Sees({.causal = false, .visible_begin = 0, .visible_end = 7}, 5, 7));
}

TEST(Oracle, ScoresAreScaledCappedAndBent) {
  // One key at distance 2: the lse is its score, 3 * tanh(4 * 0.5 / 3) - 0.25 * 2.
  const OracleScore score{.scale = 0.5, .softcap = 3, .alibi_slope = 0.25};
  const OracleRow row = AttendRow({4}, Rows({1}), Rows({1}), 2, {}, score);
  EXPECT_NEAR(row.lse, 3 * std::tanh(2.0 / 3) - 0.5, 1e-12);
}

TEST(Oracle, SinkTakesPartAndCarriesNothing) {
  OracleScore score;
  score.has_sink = true;
  score.sink = std::log(3.0);
  const OracleRow row = AttendRow({0, 0}, Rows({1, 1}), Rows({8, 4}), 0, kNone, score);
  EXPECT_NEAR(row.out[0], 2, 1e-12);  // one part of four
  EXPECT_NEAR(row.lse, std::log(4.0), 1e-12);
  const OracleRow blind = AttendRow({0, 0}, Rows({1, 1}), Rows({8, 4}), -1, {}, score);
  EXPECT_EQ(blind.out[0], 0);
  EXPECT_NEAR(blind.lse, std::log(3.0), 1e-12);
}

TEST(Oracle, RowThatSeesNothing) {
  const OracleRow row = AttendRow({1, 1}, kKeys, kValues, -1, {}, {});
  EXPECT_EQ(row.out, std::vector<double>({0, 0}));
  EXPECT_EQ(row.lse, -kInfinity);
  EXPECT_EQ(LseError(row, -std::numeric_limits<float>::infinity()), 0);
  EXPECT_EQ(LseError(row, std::numeric_limits<float>::infinity()), kInfinity);
  EXPECT_EQ(OutError(row, {0, 0}), 0);
}

TEST(Oracle, KeysNobodySeesMayBeNaN) {
  HeadRows keys = kKeys, values = kValues;
  for (size_t i = 2; i < 6; ++i) keys[i] = values[i] = 0xffff;
  EXPECT_EQ(AttendRow({1, 1}, keys, values, 0, {}, {}).out, std::vector<double>({8, 0}));
}

TEST(Errors, AreInUnitsOfWhatIsAllowed) {
  const OracleRow row{{1.0}, 2.0, {3.0}};
  const double allowed = 1.25 / 512 * 4 + 1e-6;
  EXPECT_NEAR(OutError(row, {static_cast<float>(1 + allowed)}), 1, 1e-4);
  EXPECT_GT(OutError(row, {1.02f}), 1);
  EXPECT_EQ(OutError(row, {std::nanf("")}), kInfinity);
  EXPECT_NEAR(LseError(row, 2.00002f), 1, 0.02);
  EXPECT_EQ(LseError(row, std::nanf("")), kInfinity);
}

// A node of one row and one element.
Node Leaf(int64_t index, float m, float l, float o, int level = 0) { return {{level, index}, {o}, {m}, {l}}; }

TEST(Fold, MergeByHand) {
  Node left = Leaf(0, 3, 1, 10);
  Merge(&left, Leaf(1, 5, 2, 7));
  EXPECT_EQ(left.m[0], 5);
  EXPECT_EQ(left.l[0], 2.25f);
  EXPECT_EQ(left.o[0], 9.5f);
}

TEST(Fold, SideThatSawNothingIsTheIdentity) {
  Node left = Leaf(0, -1048576, 0, 0);
  Merge(&left, Leaf(1, 5, 2, 7));
  EXPECT_EQ(left.l[0], 2);
  EXPECT_EQ(left.o[0], 7);
  Merge(&left, Leaf(1, 90, 0, 55));
  EXPECT_EQ(left.m[0], 5);
  EXPECT_EQ(left.o[0], 7);
}

// Sums of five blocks whose float32 total tells the order of addition, folded in every order of arrival.
void ExpectTotal(const std::vector<float>& sums, float total) {
  std::vector<int> order = {0, 1, 2, 3, 4};
  do {
    std::vector<Node> nodes;
    for (const int i : order) nodes.push_back(Leaf(i, 0, sums[i], sums[i]));
    const Node root = FoldToRoot(nodes);
    ASSERT_EQ(root.l[0], total);
    ASSERT_EQ(root.id, (NodeId{3, 0}));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Fold, FollowsTheTreeInEveryOrder) {
  // From 2^24 on floats are even, ties go to multiples of 4. The tree is ((0 1) (2 3)) 4.
  ExpectTotal({16777216, 1, 1, 1, 1}, 16777220);      // one after the other: 16777216
  ExpectTotal({16777216, 1, 0.5, 0.5, 1}, 16777216);  // (0 1) ((2 3) 4): 16777218
}

TEST(Fold, TakesNodesOfAnyLevel) {
  const Node root = FoldToRoot({Leaf(4, 0, 1, 4), Leaf(1, 0, 2, 6, 1), Leaf(0, 0, 2, 2, 1)});
  EXPECT_EQ(root.l[0], 5);
  EXPECT_EQ(FinishedOut(root), std::vector<float>({12 * (1.0f / 5)}));
}

TEST(Fold, RowThatSawNothingIsZero) { EXPECT_EQ(FinishedOut(Leaf(0, -1048576, 0, 0)), std::vector<float>({0})); }

}  // namespace
}  // namespace rondo::gpu_check
