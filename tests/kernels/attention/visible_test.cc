// The intervals of rondo/visible.h against the mask in words, key by key.
#include "rondo/visible.h"

#include <random>

#include "gtest/gtest.h"
#include "tests/kernels/attention/random_problem.h"

namespace rondo {
namespace {

TEST(VisibleTest, IntervalsAreTheMask) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    Problem p;
    p.tokens = 1 + static_cast<int64_t>(random() % 40);
    SetRandomMask(&p, random);
    KeyRange before{INT64_MIN, INT64_MIN};
    for (int64_t position = -45; position < 90; ++position) {
      const KeyRange keys = VisibleKeys(p.mask, position);
      ASSERT_LE(before.begin, keys.begin) << position << ", " << p.Describe();
      ASSERT_LE(before.end, keys.end) << position << ", " << p.Describe();
      before = keys;
      for (int64_t key = 0; key < p.tokens; ++key) {
        ASSERT_EQ(keys.begin <= key && key < keys.end, p.Sees(position, key))
            << "position " << position << ", key " << key << ", " << p.Describe();
      }
    }
  }
}

TEST(VisibleTest, BlocksThatSomeRowSees) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    Problem p;
    p.tokens = kBlockTokens * 4;
    SetRandomMask(&p, random);
    const int64_t begin = static_cast<int64_t>(random() % 1500) - 200;
    const int64_t end = begin + static_cast<int64_t>(random() % 300);
    const BlockRange all = VisibleBlocks(p.mask, begin, end, {0, 4}), some = VisibleBlocks(p.mask, begin, end, {1, 3});
    for (int64_t b = 0; b < 4; ++b) {
      bool seen = false;
      for (int64_t row = begin; row < end && !seen; ++row) {
        for (int64_t key = b * kBlockTokens; key < (b + 1) * kBlockTokens && !seen; ++key) seen = p.Sees(row, key);
      }
      const auto message = [&] {
        return testing::Message() << begin << ".." << end << ", block " << b << p.Describe();
      };
      EXPECT_EQ(AnyRowSees(p.mask, begin, end, b), seen) << message();
      EXPECT_EQ(all.begin <= b && b < all.end, seen) << message();
      EXPECT_EQ(some.begin <= b && b < some.end, seen && (b == 1 || b == 2)) << message();
    }
  }
}

TEST(VisibleTest, ByHand) {
  const int64_t starts[] = {0, 3, 3, 7};
  const auto expect = [](const MaskSpec& mask, int64_t position, int64_t begin, int64_t end) {
    const KeyRange keys = VisibleKeys(mask, position);
    EXPECT_EQ(keys.begin, begin) << position;
    EXPECT_EQ(keys.end, end) << position;
  };
  expect({.causal = true, .window = 4}, 10, 7, 11);
  expect({.causal = false, .window = 4}, 10, 7, 14);
  expect({.causal = true, .sequence_starts = starts}, 2, 0, 3);
  expect({.causal = true, .sequence_starts = starts}, 3, 3, 4);
  expect({.causal = false, .sequence_starts = starts}, 5, 3, 7);
  expect({.causal = false, .window = 2, .sequence_starts = starts}, 3, 3, 5);
  EXPECT_TRUE(VisibleKeys({.causal = false, .sequence_starts = starts}, -1).empty());
  EXPECT_TRUE(VisibleKeys({.causal = false, .sequence_starts = starts}, 7).empty());
  EXPECT_TRUE(AnyRowSees({}, 0, 1, 0));
  EXPECT_FALSE(AnyRowSees({}, 0, 256, 1));
  EXPECT_TRUE(AnyRowSees({}, 0, 257, 1));
  EXPECT_FALSE(AnyRowSees({.window = 256}, 511, 512, 0));
  EXPECT_FALSE(AnyRowSees({}, 5, 5, 0));
}

}  // namespace
}  // namespace rondo
