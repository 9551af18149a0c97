#include "cli/bench/counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rondo::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Counts, ReadsListsWithUnits) {
  EXPECT_THAT(*ParseCounts("--tokens", "4k,16K,1M,1000", 1, 1 << 30), ElementsAre(1000, 4096, 16384, 1048576));
}

TEST(Counts, SortsAndKeepsEachOnce) {
  EXPECT_THAT(*ParseCounts("--workers", "4,1,2,2,1", 1, 4096), ElementsAre(1, 2, 4));
}

TEST(Counts, NamesThePieceAndTheLimits) {
  for (const char* bad : {"", "1,,2", "two", "0", "-1", "4097", "5k", "k", "1.5", "1 2", "99999999999999999999",
                          "-9223372036854775807k", "9007199254740993k", "-8796093022208M"}) {
    const auto counts = ParseCounts("--workers", bad, 1, 4096);
    ASSERT_FALSE(counts.ok()) << bad;
    EXPECT_THAT(std::string(counts.status().message()), HasSubstr("--workers: '")) << bad;
    EXPECT_THAT(std::string(counts.status().message()), HasSubstr("from 1 to 4096")) << bad;
  }
}

TEST(Counts, TakesTheLargestAndNothingMore) {
  EXPECT_TRUE(ParseCounts("--tokens", "4k", 1, 4096).ok());
  EXPECT_FALSE(ParseCounts("--tokens", "4k", 1, 4095).ok());
}

TEST(Counts, ShowsTheShortestForm) {
  EXPECT_EQ(ShowTokens(4096), "4k");
  EXPECT_EQ(ShowTokens(1 << 20), "1M");
  EXPECT_EQ(ShowTokens(1000), "1000");
  EXPECT_EQ(ShowTokens(1536 * 1024), "1536k");
  EXPECT_EQ(ShowTokens(0), "0");
}

}  // namespace
}  // namespace rondo::cli
