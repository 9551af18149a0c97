// Byte-level BPE on vocabularies small enough to merge by hand.
#include "model/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/model/tokenizer/test_tokenizer.h"

namespace rondo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// Ids: byte b is b; 256 "th", 257 "in", 258 " th", 259 " the", 260 "he", then control <s> 261, </s> 262.
GgufWriter Small() {
  return GgufWriter()
      .ByteVocabulary({"t h", "i n", "Ġ th", "Ġth e", "h e"}, {"<s>", "</s>"})
      .U32("tokenizer.ggml.bos_token_id", 261)
      .U32("tokenizer.ggml.eos_token_id", 262);
}

TEST(Tokenizer, MergesLowestRankFirst) {
  const auto tokenizer = TokenizerOf(Small()).value();
  EXPECT_THAT(tokenizer->Encode("the", false), ElementsAre(256, 'e'));  // "t h" outranks "h e"
  EXPECT_THAT(tokenizer->Encode("he", false), ElementsAre(260));
  EXPECT_THAT(tokenizer->Encode(" the", false), ElementsAre(259));
  EXPECT_THAT(tokenizer->Encode("in the", false), ElementsAre(257, 259));
  EXPECT_THAT(tokenizer->Encode("", false), ElementsAre());
}

TEST(Tokenizer, MergesLeftmostFirstOnTies) {
  const auto tokenizer = TokenizerOf(GgufWriter().ByteVocabulary({"a a", "aa a"}, {})).value();
  EXPECT_THAT(tokenizer->Encode("aaa", false), ElementsAre(257));
  EXPECT_THAT(tokenizer->Encode("aaaa", false), ElementsAre(256, 256));
  EXPECT_THAT(tokenizer->Encode("aaaaa", false), ElementsAre(256, 257));
}

// The textbook procedure: again and again the lowest-ranked, leftmost pair, O(n^2).
std::vector<std::string> SlowMerge(std::vector<std::string> symbols,
                                   const std::vector<std::pair<std::string, std::string>>& merges) {
  while (true) {
    size_t best_rank = merges.size();
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].first == symbols[i] && merges[rank].second == symbols[i + 1]) {
          best_rank = rank;
          best_at = i;
        }
      }
    }
    if (best_rank == merges.size()) return symbols;
    symbols[best_at] += symbols[best_at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

TEST(Tokenizer, AgreesWithTheTextbookProcedure) {
  std::mt19937 random(7);
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<std::string> written;
  std::vector<std::string> known = {"a", "b", "c"};
  while (merges.size() < 40) {
    const std::string left = known[random() % known.size()];
    const std::string right = known[random() % known.size()];
    if (left.size() + right.size() > 6) continue;
    if (std::find(known.begin(), known.end(), left + right) != known.end()) continue;
    merges.emplace_back(left, right);
    written.push_back(left + " " + right);
    known.push_back(left + right);
  }
  const auto tokenizer = TokenizerOf(GgufWriter().ByteVocabulary(written, {})).value();
  for (int round = 0; round < 300; ++round) {
    std::string word;
    for (size_t i = random() % 40; i > 0; --i) word += static_cast<char>('a' + random() % 3);
    std::vector<std::string> letters;
    for (const char letter : word) letters.emplace_back(1, letter);
    std::vector<std::string> got;
    for (const int32_t id : tokenizer->Encode(word, false)) got.emplace_back(tokenizer->TokenBytes(id));
    EXPECT_EQ(got, SlowMerge(letters, merges)) << word;
  }
}

TEST(Tokenizer, AddsBosAndEosWhereTheFileWantsThem) {
  EXPECT_THAT(TokenizerOf(Small()).value()->Encode("a", true), ElementsAre('a'));
  GgufWriter with = Small().Bool("tokenizer.ggml.add_bos_token", true);
  EXPECT_THAT(TokenizerOf(with).value()->Encode("a", true), ElementsAre(261, 'a'));
  EXPECT_THAT(TokenizerOf(with).value()->Encode("", true), ElementsAre(261));
  EXPECT_THAT(TokenizerOf(with).value()->Encode("a", false), ElementsAre('a'));
  with.Bool("tokenizer.ggml.add_eos_token", true);
  EXPECT_THAT(TokenizerOf(with).value()->Encode("a", true), ElementsAre(261, 'a', 262));
}

TEST(Tokenizer, ControlTextsInUserTextStayPlain) {
  const auto tokenizer = TokenizerOf(Small().Bool("tokenizer.ggml.add_bos_token", true)).value();
  EXPECT_THAT(tokenizer->Encode("<s>", true), ElementsAre(261, '<', 's', '>'));
  const std::vector<int32_t> ids = tokenizer->Encode("</s><s>", false);
  EXPECT_THAT(ids, ElementsAre('<', '/', 's', '>', '<', 's', '>'));
  // In a trusted range they are control tokens, and BOS still comes once.
  const TrustedRange trusted[] = {{0, 3}, {4, 8}};
  EXPECT_THAT(tokenizer->EncodeRendered("<s>a</s></s>", trusted, true), ElementsAre(261, 'a', 262, '<', '/', 's', '>'));
  // A text that only partly lies in a trusted range is not one.
  const TrustedRange half[] = {{0, 2}};
  EXPECT_THAT(tokenizer->EncodeRendered("<s>", half, false), ElementsAre('<', 's', '>'));
}

TEST(Tokenizer, UserDefinedTokensAreAlwaysCutOut) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(ByteLetter(static_cast<uint8_t>(byte)));
  std::vector<int32_t> types(256, 1);
  for (const char* text : {"<a>", "<a><b>", "  "}) {
    tokens.emplace_back(text);
    types.push_back(4);
  }
  const auto tokenizer = TokenizerOf(GgufWriter()
                                         .String("tokenizer.ggml.model", "gpt2")
                                         .String("tokenizer.ggml.pre", "gpt-2")
                                         .Strings("tokenizer.ggml.tokens", tokens)
                                         .I32s("tokenizer.ggml.token_type", types))
                             .value();
  EXPECT_THAT(tokenizer->Encode("x<a><b><a>y", false), ElementsAre('x', 257, 256, 'y'));  // the longest first
  EXPECT_THAT(tokenizer->Encode("x   y", false), ElementsAre('x', 258, ' ', 'y'));
  EXPECT_EQ(tokenizer->TokenBytes(257), "<a><b>");
  EXPECT_EQ(tokenizer->TokenBytes(258), "  ");
}

TEST(Tokenizer, InvalidUtf8IsEncodedByteByByte) {
  const auto tokenizer = TokenizerOf(Small()).value();
  EXPECT_THAT(tokenizer->Encode("\xE2\x80", false), ElementsAre(0xE2, 0x80));
  EXPECT_THAT(tokenizer->Encode("\xC0\x80", false), ElementsAre(0xC0, 0x80));
  EXPECT_THAT(tokenizer->Encode("\xED\xA0\x80", false), ElementsAre(0xED, 0xA0, 0x80));
  EXPECT_THAT(tokenizer->Encode("in\xFF the", false), ElementsAre(257, 0xFF, 259));
  EXPECT_THAT(tokenizer->Encode(std::string_view("a\0b", 3), false), ElementsAre('a', 0, 'b'));
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (size_t i = random() % 50; i > 0; --i) bytes += static_cast<char>(random());
    EXPECT_EQ(Decode(*tokenizer, tokenizer->Encode(bytes, false)), bytes);
  }
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreNothing) {
  const auto tokenizer = TokenizerOf(Small()).value();
  EXPECT_EQ(tokenizer->vocab_size(), 263);
  for (const int32_t id : {-1, 263, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer->TokenBytes(id), "");
    EXPECT_EQ(tokenizer->TokenText(id), "");
    EXPECT_FALSE(tokenizer->IsEnd(id));
  }
  EXPECT_EQ(tokenizer->TokenBytes(259), " the");
  EXPECT_EQ(tokenizer->TokenText(259), "Ġthe");
}

TEST(Tokenizer, EndsByKeyAndByText) {
  const auto tokenizer = TokenizerOf(GgufWriter()
                                         .ByteVocabulary({}, {"<eos_x>", "<|im_end|>", "<eot_x>", "<|other|>", "</s>"})
                                         .U32("tokenizer.ggml.eos_token_id", 256)
                                         .U32("tokenizer.ggml.eot_token_id", 258))
                             .value();
  std::vector<bool> ends;
  for (int32_t id = 256; id < 261; ++id) {
    ends.push_back(tokenizer->IsEnd(id));
    EXPECT_EQ(tokenizer->TokenBytes(id), "");
  }
  EXPECT_THAT(ends, ElementsAre(true, true, true, false, true));
  EXPECT_FALSE(tokenizer->IsEnd('a'));
}

// Some files call their end token user-defined; a user's text must not end the turn all the same.
TEST(Tokenizer, EndTokensOfTheWrongTypeAreControlTokens) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(ByteLetter(static_cast<uint8_t>(byte)));
  std::vector<int32_t> types(256, 1);
  for (const int32_t type : {4, 1}) {
    tokens.push_back(type == 4 ? "<|im_end|>" : "<|eot_id|>");
    types.push_back(type);
  }
  const auto tokenizer = TokenizerOf(GgufWriter()
                                         .String("tokenizer.ggml.model", "gpt2")
                                         .String("tokenizer.ggml.pre", "gpt-2")
                                         .Strings("tokenizer.ggml.tokens", tokens)
                                         .I32s("tokenizer.ggml.token_type", types))
                             .value();
  for (const int32_t id : {256, 257}) {
    const std::string text(tokenizer->TokenText(id));
    EXPECT_TRUE(tokenizer->IsEnd(id));
    EXPECT_EQ(tokenizer->Encode(text, false).size(), text.size());
    const TrustedRange whole[] = {{0, text.size()}};
    EXPECT_THAT(tokenizer->EncodeRendered(text, whole, false), ElementsAre(id));
    EXPECT_EQ(tokenizer->TokenBytes(id), "");
  }
}

TEST(Tokenizer, TakesWholeWordsFirstForLlama3) {
  // "abc" cannot be reached by these merges, but is a token.
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(ByteLetter(static_cast<uint8_t>(byte)));
  tokens.emplace_back("abc");
  const auto with = [&](const char* pre) {
    return TokenizerOf(GgufWriter()
                           .String("tokenizer.ggml.model", "gpt2")
                           .String("tokenizer.ggml.pre", pre)
                           .Strings("tokenizer.ggml.tokens", tokens)
                           .U32("tokenizer.ggml.bos_token_id", 0))
        .value();
  };
  EXPECT_THAT(with("llama-bpe")->Encode("abc", false), ElementsAre(256));
  EXPECT_THAT(with("llama-bpe")->Encode("abc", true), ElementsAre(0, 256));  // adds BOS where the file says nothing
  EXPECT_THAT(with("gpt-2")->Encode("abc", true), ElementsAre('a', 'b', 'c'));
}

TEST(Tokenizer, LongWordsTakeNoQuadraticTime) {
  const auto tokenizer = TokenizerOf(GgufWriter().ByteVocabulary({"a a", "aa aa"}, {})).value();
  EXPECT_EQ(tokenizer->Encode(std::string(400000, 'a'), false).size(), 100000u);
}

TEST(Tokenizer, RefusesBrokenVocabularies) {
  const auto refused = [](const GgufWriter& writer) { return Message(TokenizerOf(writer).status()); };
  EXPECT_THAT(refused(GgufWriter()), HasSubstr("tokenizer.ggml.model is missing"));
  EXPECT_THAT(refused(GgufWriter().String("tokenizer.ggml.model", "gpt2")),
              HasSubstr("tokenizer.ggml.tokens is missing"));
  GgufWriter spm;
  spm.String("tokenizer.ggml.model", "llama").Strings("tokenizer.ggml.tokens", {"a"});
  EXPECT_EQ(TokenizerOf(spm).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(refused(spm), HasSubstr("\"llama\""));
  EXPECT_THAT(refused(Small().U32("tokenizer.ggml.eot_token_id", 263)), HasSubstr("eot_token_id is 263"));
  EXPECT_THAT(refused(Small().F32s("tokenizer.ggml.scores", {1, 2})), HasSubstr("scores has 2 entries for 263"));
  EXPECT_THAT(refused(Small().Raw("tokenizer.ggml.scores", 9, LittleEndian<uint32_t>(0) + LittleEndian<uint64_t>(0))),
              HasSubstr("array of f32 is expected"));
  EXPECT_THAT(refused(Small().U32("tokenizer.ggml.add_bos_token", 1)), HasSubstr("add_bos_token has type u32"));
  const auto small = [](std::vector<std::string> tokens) {
    return GgufWriter()
        .String("tokenizer.ggml.model", "gpt2")
        .String("tokenizer.ggml.pre", "gpt-2")
        .Strings("tokenizer.ggml.tokens", std::move(tokens));
  };
  EXPECT_THAT(refused(small({"a", "b", "a"})), HasSubstr("tokens 0 and 2 have the same text"));
  EXPECT_THAT(refused(small({})), HasSubstr("0 entries"));
  EXPECT_THAT(refused(small({"a", "b"}).I32s("tokenizer.ggml.token_type", {1})), HasSubstr("1 entries for 2"));
  EXPECT_THAT(refused(small({"a", "b"}).I32s("tokenizer.ggml.token_type", {1, 7})), HasSubstr("token 1 is 7"));
  EXPECT_THAT(refused(small({"a", "b"}).Strings("tokenizer.ggml.merges", {"a b"})), HasSubstr("merge 0"));
  EXPECT_THAT(refused(small({"a", "b", "ab"}).Strings("tokenizer.ggml.merges", {"ab"})), HasSubstr("two parts"));
  // A merge must not lead to a control token.
  EXPECT_THAT(refused(small({"a", "b", "ab"})
                          .I32s("tokenizer.ggml.token_type", {1, 1, 3})
                          .Strings("tokenizer.ggml.merges", {"a b"})),
              HasSubstr("no normal token"));
  GgufWriter unknown;
  unknown.String("tokenizer.ggml.model", "gpt2")
      .Strings("tokenizer.ggml.tokens", {"a"})
      .String("tokenizer.ggml.pre", "mystery");
  EXPECT_THAT(refused(unknown), HasSubstr("\"mystery\""));
  GgufWriter missing;
  missing.String("tokenizer.ggml.model", "gpt2").Strings("tokenizer.ggml.tokens", {"a"});
  EXPECT_TRUE(TokenizerOf(missing).ok());  // with a warning
}

}  // namespace
}  // namespace rondo
