// Addresses as people mistype them.
#include "base/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rondo {
namespace {

using testing::HasSubstr;

TEST(CheckAddress, TakesHostsAndPorts) {
  for (const char* good : {"127.0.0.1:7070", "localhost:0", "[::1]:65535", "a.example:1"}) {
    EXPECT_EQ(CheckAddress(good), "") << good;
  }
}

TEST(CheckAddress, SaysWhatIsWrong) {
  EXPECT_THAT(CheckAddress("127.0.0.1:1000000"), HasSubstr("1000000 is not in 0..65535"));
  EXPECT_THAT(CheckAddress("127.0.0.1:-1"), HasSubstr("-1 is not in 0..65535"));
  EXPECT_THAT(CheckAddress("nonsense"), HasSubstr("is not HOST:PORT"));
  EXPECT_THAT(CheckAddress(""), HasSubstr("is not HOST:PORT"));
  EXPECT_THAT(CheckAddress(":7070"), HasSubstr("is not HOST:PORT"));
  EXPECT_THAT(CheckAddress("host:"), HasSubstr("is not in 0..65535"));
  EXPECT_THAT(CheckAddress("::1:7070"), HasSubstr("brackets"));
}

}  // namespace
}  // namespace rondo
