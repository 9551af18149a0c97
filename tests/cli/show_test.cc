#include "cli/show.h"

#include <gtest/gtest.h>

namespace rondo::cli {
namespace {

TEST(ShowModel, AGroupWithoutOneSaysWhatItIsFor) {
  EXPECT_EQ(ShowModel("tiny.gguf"), "model tiny.gguf");
  EXPECT_EQ(ShowModel(""), "no model: attention jobs only");
}

TEST(Show, Numbers) {
  EXPECT_EQ(ShowCount(0), "0");
  EXPECT_EQ(ShowCount(999), "999");
  EXPECT_EQ(ShowCount(1000), "1,000");
  EXPECT_EQ(ShowCount(98362432), "98,362,432");
  EXPECT_EQ(ShowBytes(512), "512 B");
  EXPECT_EQ(ShowBytes(26097), "25.5 KiB");
  EXPECT_EQ(ShowBytes(uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(ShowRate(612.4), "612");
  EXPECT_EQ(ShowRate(24.13), "24.1");
  EXPECT_EQ(ShowRate(3.074), "3.07");
  EXPECT_EQ(ShowRate(0), "0");
}

TEST(Show, TableColumnsLineUp) {
  EXPECT_EQ(ShowTable({{"JOB", "STATE"}, {"a-long-id", "queued"}, {"b", "running"}}),
            "JOB        STATE\n"
            "a-long-id  queued\n"
            "b          running\n");
}

}  // namespace
}  // namespace rondo::cli
