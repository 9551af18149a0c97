#include "model/tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace rondo {
namespace {

std::string Shown(std::string_view text) {
  std::string out;
  AppendAsUtf8(text, &out);
  return out;
}

TEST(Utf8, KnowsWellFormedSequencesAtTheirBorders) {
  for (const std::string_view good : {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                                      "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(ValidUtf8Prefix(good), good.size());
    EXPECT_EQ(Shown(good), good);
  }
  // Overlong, surrogate, above U+10FFFF, stray continuation, never a lead byte.
  for (const std::string_view bad : {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                                     "\xF4\x90\x80\x80", "\x80", "\xF5", "\xFF"}) {
    EXPECT_EQ(ValidUtf8Prefix(bad), 0u);
    EXPECT_EQ(NextUtf8(bad).kind, Utf8Kind::kInvalid);
  }
}

// The Unicode standard's own example (chapter 3, table 3-8): each maximal subpart becomes one U+FFFD.
TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(Shown("a\xF1\x80\x80\xE1\x80\xC2"
                  "b\x80"
                  "c\x80\xBF"
                  "d"),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
  EXPECT_EQ(Shown("\xE2\x80"), r);
  EXPECT_EQ(Shown("\xC0\x80"), r + r);
}

}  // namespace
}  // namespace rondo
