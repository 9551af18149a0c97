// Streams: whole characters, stop strings over any token borders, and the same text however it was cut.
#include "model/tokenizer/stream_detokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "model/tokenizer/utf8.h"
#include "tests/model/tokenizer/test_tokenizer.h"

namespace rondo {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

// Ids: bytes, then 256 "ab", 257 "ST", 258 "cST", 259 "OP", 260 "STO", 261 "STOP", 262 "xSTOP", 263 "xSTOPy"; control
// 264.
std::shared_ptr<const Tokenizer> Letters() {
  return TokenizerOf(GgufWriter().ByteVocabulary({"a b", "S T", "c ST", "O P", "ST O", "STO P", "x STOP", "xSTOP y"},
                                                 {"<|im_end|>"}))
      .value();
}

struct Streamed {
  std::vector<std::string> pieces;
  std::string text;
  bool stopped = false;
};

Streamed Stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, std::vector<std::string> stops) {
  StreamDetokenizer stream(tokenizer, std::move(stops));
  Streamed out;
  for (const int32_t id : ids) out.pieces.push_back(stream.Push(id));
  out.pieces.push_back(stream.Flush());
  out.stopped = stream.stopped();
  for (const std::string& piece : out.pieces) {
    EXPECT_EQ(ValidUtf8Prefix(piece), piece.size());
    out.text += piece;
  }
  return out;
}

TEST(StreamDetokenizer, CutsAStopStringSplitOverTokens) {
  const auto tokenizer = Letters();
  const Streamed out = Stream(*tokenizer, {256, 258, 259}, {"STOP"});
  EXPECT_THAT(out.pieces, testing::ElementsAre("ab", "c", "", ""));
  EXPECT_TRUE(out.stopped);
}

TEST(StreamDetokenizer, CutsAStopStringInsideAToken) {
  const auto tokenizer = Letters();
  const Streamed out = Stream(*tokenizer, {256, 263, 256}, {"STOP"});
  EXPECT_EQ(out.text, "abx");
  EXPECT_TRUE(out.stopped);
}

TEST(StreamDetokenizer, GivesHeldTextBackWhenThePrefixFails) {
  const auto tokenizer = Letters();
  EXPECT_THAT(Stream(*tokenizer, {258, 'x'}, {"STOP"}).pieces, testing::ElementsAre("c", "STx", ""));
  EXPECT_THAT(Stream(*tokenizer, {258}, {"STOP"}).pieces, testing::ElementsAre("c", "ST"));
  // The failed prefix may begin another: "STSTOP".
  const Streamed out = Stream(*tokenizer, {257, 257, 259}, {"STOP"});
  EXPECT_EQ(out.text, "ST");
  EXPECT_TRUE(out.stopped);
  EXPECT_EQ(Stream(*tokenizer, {256, 256}, {}).text, "abab");
  EXPECT_EQ(Stream(*tokenizer, {256}, {""}).text, "ab");
}

TEST(StreamDetokenizer, OfSeveralTheFirstCompleteWins) {
  const auto tokenizer = Letters();
  EXPECT_EQ(Stream(*tokenizer, {262}, {"OP", "STOP"}).text, "x");  // both complete at once: the longer
  EXPECT_EQ(Stream(*tokenizer, {262}, {"STOPPER", "TO"}).text, "xS");
  EXPECT_EQ(Stream(*tokenizer, {261}, {"STOP", "TO"}).text, "S");  // "TO" is complete before "STOP"
  EXPECT_EQ(Stream(*tokenizer, {'S', 'T', 'O', 'P'}, {"STOP", "TO"}).text, "S");
}

TEST(StreamDetokenizer, ShowsWholeCharacters) {
  const auto tokenizer = Letters();
  EXPECT_THAT(Stream(*tokenizer, {0xF0, 0x9F, 0x99, 0x82, 'a'}, {}).pieces,
              testing::ElementsAre("", "", "", "\xF0\x9F\x99\x82", "a", ""));
  EXPECT_THAT(Stream(*tokenizer, {'a', 0xE2, 0x80}, {}).pieces, testing::ElementsAre("a", "", "", kReplacement));
  EXPECT_THAT(Stream(*tokenizer, {0xE2, 0x80, 'a'}, {}).pieces, testing::ElementsAre("", "", kReplacement + "a", ""));
  EXPECT_THAT(Stream(*tokenizer, {0x80, 'a'}, {}).pieces, testing::ElementsAre(kReplacement, "a", ""));
  // An unfinished character in front of a stop string.
  EXPECT_EQ(Stream(*tokenizer, {0xE2, 0x80, 261}, {"STOP"}).text, kReplacement);
  // A stop string of several bytes a character, cut inside one.
  const Streamed out = Stream(*tokenizer, {'a', 0xE2, 0x80, 0x94, 'b'}, {"\xE2\x80\x94"});
  EXPECT_EQ(out.text, "a");
  EXPECT_TRUE(out.stopped);
}

TEST(StreamDetokenizer, EndTokensAndForeignIdsShowNothing) {
  const auto tokenizer = Letters();
  EXPECT_EQ(Stream(*tokenizer, {256, 264, -1, 265, INT32_MAX}, {"STOP"}).text, "ab");
}

// The law of this class: the same bytes give the same text, one byte at a time or in tokens of any size.
TEST(StreamDetokenizer, TheTextDoesNotDependOnTheTokens) {
  const auto tokenizer = Letters();
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> tokens;
    std::vector<int32_t> bytes;
    for (int i = 0; i < 12; ++i) {
      const int32_t id =
          random() % 3 == 0 ? static_cast<int32_t>(random() % 256) : static_cast<int32_t>(256 + random() % 8);
      tokens.push_back(id);
      for (const char byte : tokenizer->TokenBytes(id)) bytes.push_back(static_cast<uint8_t>(byte));
    }
    const std::vector<std::string> stops = {"STOPS", "OPx", "bab", "TOPab"};
    const Streamed whole = Stream(*tokenizer, tokens, stops);
    const Streamed split = Stream(*tokenizer, bytes, stops);
    EXPECT_EQ(whole.text, split.text);
    EXPECT_EQ(whole.stopped, split.stopped);
  }
}

}  // namespace
}  // namespace rondo
