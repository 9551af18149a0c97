// Words by hand from the published patterns.
#include "model/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rondo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Words(std::string_view rule, std::string_view text) {
  const PreTokenizer splitter(FindPreTokenizerRule(rule).value().kind);
  std::vector<std::string> words;
  splitter.Split(text, [&](std::string_view word) { words.emplace_back(word); });
  std::string joined;
  for (const std::string& word : words) joined += word;
  EXPECT_EQ(joined, text);
  return words;
}

TEST(PreTokenizer, Digits) {
  EXPECT_THAT(Words("gpt-2", "3333+777"), ElementsAre("3333", "+", "777"));
  EXPECT_THAT(Words("smollm", "3333+777"), ElementsAre("3", "3", "3", "3", "+", "7", "7", "7"));
  EXPECT_THAT(Words("llama-bpe", "3333+777"), ElementsAre("333", "3", "+", "777"));
  EXPECT_THAT(Words("qwen2", "33+7"), ElementsAre("3", "3", "+", "7"));
  // Full-width and Arabic-Indic digits are digits.
  EXPECT_THAT(Words("gpt-2", "１２ ٣٤"), ElementsAre("１２", " ٣٤"));
  EXPECT_THAT(Words("smollm", "１２ ٣٤"), ElementsAre("１", "２", " ", "٣", "٤"));
  EXPECT_THAT(Words("llama-bpe", "٣٤٥٦"), ElementsAre("٣٤٥", "٦"));
  // The space before a digit is a piece of its own where digits are cut out first.
  EXPECT_THAT(Words("gpt-2", "a 1 b"), ElementsAre("a", " 1", " b"));
  EXPECT_THAT(Words("smollm", "a 1 b"), ElementsAre("a", " ", "1", " b"));
  EXPECT_THAT(Words("smollm", "a  1"), ElementsAre("a", "  ", "1"));
}

TEST(PreTokenizer, Contractions) {
  EXPECT_THAT(Words("gpt-2", "I'LL I'll"), ElementsAre("I", "'", "LL", " I", "'ll"));
  EXPECT_THAT(Words("smollm", "I'LL I'll"), ElementsAre("I", "'", "LL", " I", "'ll"));
  EXPECT_THAT(Words("llama-bpe", "I'LL I'll"), ElementsAre("I", "'LL", " I", "'ll"));
  EXPECT_THAT(Words("qwen2", "I'LL I'll"), ElementsAre("I", "'LL", " I", "'ll"));
}

TEST(PreTokenizer, WhiteSpace) {
  EXPECT_THAT(Words("gpt-2", "a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(Words("gpt-2", "a \n\n b  "), ElementsAre("a", " \n\n", " b", "  "));
  EXPECT_THAT(Words("llama-bpe", "a \n\n b"), ElementsAre("a", " \n\n", " b"));
  EXPECT_THAT(Words("llama-bpe", "(x)\n\ny"), ElementsAre("(x", ")\n\n", "y"));
  // U+00A0 is white space but no plain space: it does not join the word in GPT-2, and does in Llama 3.
  EXPECT_THAT(Words("gpt-2", "a\u00A0b"), ElementsAre("a", "\u00A0", "b"));
  EXPECT_THAT(Words("llama-bpe", "a\u00A0b"), ElementsAre("a", "\u00A0b"));
  EXPECT_THAT(Words("gpt-2", "a\u3000\u3000b"), ElementsAre("a", "\u3000", "\u3000", "b"));
  // U+180E stopped being white space in Unicode 6.3: it goes with other characters.
  EXPECT_THAT(Words("gpt-2", "a \u180E!"), ElementsAre("a", " \u180E!"));
  EXPECT_THAT(Words("gpt-2", ""), ElementsAre());
}

// A run of a million characters must neither fail nor take quadratic time.
TEST(PreTokenizer, LongRuns) {
  constexpr size_t kLong = 1000000;
  for (const char* rule : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    for (const char letter : {'x', ' ', '!', '\n'}) {
      const std::vector<std::string> words = Words(rule, std::string(kLong, letter));
      EXPECT_EQ(words.size(), 1u) << rule << " " << letter;
    }
  }
  EXPECT_EQ(Words("gpt-2", std::string(kLong, ' ') + "x").size(), 2u);
}

TEST(PreTokenizer, RefusesUnknownNames) {
  const auto unknown = FindPreTokenizerRule("tekken");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("\"tekken\""));
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("smollm"));
  EXPECT_FALSE(FindPreTokenizerRule("").ok());
}

}  // namespace
}  // namespace rondo
