// Device memory cut into pieces: by hand, and against a map of bytes over many random takes and gives.
#include "worker/device/free_ranges.h"

#include <gtest/gtest.h>

#include <random>

namespace rondo::testing {
namespace {

std::byte* At(uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

TEST(FreeRanges, TakesTheSmallestThatFits) {
  FreeRanges ranges;
  EXPECT_EQ(ranges.Take(1), nullptr);
  ranges.Add(At(1000), 100);
  ranges.Add(At(5000), 40);
  EXPECT_EQ(ranges.Take(30), At(5000));
  EXPECT_EQ(ranges.Take(30), At(1000));
  EXPECT_EQ(ranges.Take(71), nullptr);
  EXPECT_EQ(ranges.Take(10), At(5030));
  EXPECT_TRUE(ranges.Owns(At(5039)));
  EXPECT_FALSE(ranges.Owns(At(5040)));
  EXPECT_FALSE(ranges.Owns(At(999)));
}

TEST(FreeRanges, NeighboursBecomeOneButNotOverStretches) {
  FreeRanges ranges;
  ranges.Add(At(1000), 100);
  ranges.Add(At(1100), 100);  // the driver may put them side by side
  std::byte* const a = ranges.Take(60);
  std::byte* const b = ranges.Take(40);
  ranges.Give(b, 40);
  ranges.Give(a, 60);
  EXPECT_EQ(ranges.Take(101), nullptr);
  EXPECT_EQ(ranges.Take(100), At(1000));
}

TEST(FreeRanges, IdleStretchesThatMayGoGo) {
  FreeRanges ranges;
  for (const uintptr_t base : {1000, 5000, 9000}) ranges.Add(At(base), 100);
  std::byte* const taken = ranges.Take(1);
  ASSERT_EQ(taken, At(1000));
  const auto not_9000 = [](std::byte* base) { return base != At(9000); };
  EXPECT_EQ(ranges.RemoveIdle(not_9000), std::vector<std::byte*>{At(5000)});
  EXPECT_FALSE(ranges.Owns(At(5000)));
  ranges.Give(taken, 1);
  EXPECT_EQ(ranges.RemoveIdle(not_9000), std::vector<std::byte*>{At(1000)});
  EXPECT_EQ(ranges.Take(100), At(9000));
  EXPECT_EQ(ranges.Take(1), nullptr);
}

TEST(FreeRanges, NoByteIsGivenTwiceAndNoneIsLost) {
  constexpr uintptr_t kBase = 4096;
  constexpr size_t kBytes = 500;
  FreeRanges ranges;
  ranges.Add(At(kBase), kBytes);
  std::vector<bool> taken(kBytes);
  std::vector<std::pair<std::byte*, size_t>> pieces;
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    if (pieces.empty() || random() % 2 == 0) {
      const size_t bytes = 1 + random() % 60;
      std::byte* const p = ranges.Take(bytes);
      size_t longest = 0;
      for (size_t at = 0, run = 0; at < kBytes; ++at) longest = std::max(longest, run = taken[at] ? 0 : run + 1);
      ASSERT_EQ(p == nullptr, longest < bytes) << i;
      if (p == nullptr) continue;
      pieces.emplace_back(p, bytes);
      for (size_t at = p - At(kBase); at < p - At(kBase) + bytes; ++at) {
        ASSERT_FALSE(taken.at(at));
        taken[at] = true;
      }
    } else {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      const auto [p, bytes] = pieces.back();
      pieces.pop_back();
      ranges.Give(p, bytes);
      for (size_t at = 0; at < bytes; ++at) taken[p - At(kBase) + at] = false;
    }
  }
}

}  // namespace
}  // namespace rondo::testing
