#include "cli/request_options.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace rondo::cli {
namespace {

RequestOptions Parse(const std::vector<std::string>& words) {
  CLI::App app;
  RequestOptions options;
  AddRequestOptions(app, &options);
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 takes a vector
  app.parse(reversed);
  return options;
}

std::string Refusal(const std::vector<std::string>& words) {
  const auto prepared = PrepareRequest(Parse(words));
  EXPECT_EQ(prepared.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(prepared.status().message());
}

TEST(PrepareRequest, EveryFlagArrives) {
  const auto prepared = PrepareRequest(
      Parse({"--question", "Why?", "--system", "S",   "--max-tokens",    "7",   "--temperature", "0.5",
             "--top-k",    "3",    "--top-p",  "0.9", "--min-p",         "0.1", "--seed",        "18446744073709551615",
             "--stop",     "A",    "--stop",   "B C", "--beyond-context"}));
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const v1::GenerateRequest& r = prepared->request;
  EXPECT_EQ(r.prompt().chat().question().inline_(), "Why?");
  EXPECT_EQ(r.prompt().chat().system().inline_(), "S");
  EXPECT_FALSE(r.prompt().chat().has_document());
  EXPECT_EQ(r.max_tokens(), 7u);
  EXPECT_FLOAT_EQ(r.sampling().temperature(), 0.5f);
  EXPECT_EQ(r.sampling().top_k(), 3);
  EXPECT_FLOAT_EQ(r.sampling().top_p(), 0.9f);
  EXPECT_FLOAT_EQ(r.sampling().min_p(), 0.1f);
  EXPECT_EQ(r.sampling().seed(), UINT64_MAX);
  ASSERT_EQ(r.stop_size(), 2);
  EXPECT_EQ(r.stop(1), "B C");
  EXPECT_TRUE(r.beyond_context());
  EXPECT_EQ(prepared->deadline, absl::InfiniteFuture());
}

TEST(PrepareRequest, TextIsBytes) {
  const std::string path = testing::TempDir() + "rondo-bytes.txt";
  const std::string bytes("a\0\xE2\x80\r\n ", 7);
  std::ofstream(path, std::ios::binary) << bytes;
  const auto prepared = PrepareRequest(Parse({"--prompt-file", path}));
  std::remove(path.c_str());
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->request.prompt().text().inline_(), bytes);
}

TEST(PrepareRequest, OnePromptAndNoMore) {
  EXPECT_NE(Refusal({}).find("--prompt"), std::string::npos);
  EXPECT_NE(Refusal({"--prompt", "x", "--question", "y"}).find("not several"), std::string::npos);
  EXPECT_NE(Refusal({"--document", "x"}).find("--question"), std::string::npos);
  EXPECT_NE(Refusal({"--prompt", "x", "--system", "y"}).find("--system"), std::string::npos);
  EXPECT_NE(Refusal({"--prompt", "x", "--deadline", "soon"}).find("--deadline"), std::string::npos);
}

// As the sampler has it: what the coordinator would refuse, and 0 for top-p, which on the wire means "not given".
TEST(RequestOptions, SamplingOutOfRangeIsRefusedWithOptionValueAndLimit) {
  const auto refusal = [](const std::string& option, const std::string& value) -> std::string {
    try {
      Parse({"--prompt", "x", option, value});
    } catch (const CLI::ValidationError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("--top-p", "0"), "--top-p: 0 is not a number above 0 and up to 1");
  EXPECT_EQ(refusal("--top-p", "1.5"), "--top-p: 1.5 is not a number above 0 and up to 1");
  EXPECT_EQ(refusal("--top-p", "nan"), "--top-p: nan is not a number above 0 and up to 1");
  EXPECT_EQ(refusal("--min-p", "-0.1"), "--min-p: -0.1 is not a number from 0 to 1");
  EXPECT_EQ(refusal("--temperature", "101"), "--temperature: 101 is not a number from 0 to 100");
  EXPECT_EQ(refusal("--top-k", "-1"), "--top-k: -1 is not a whole number from 0 to 2147483647");
  EXPECT_EQ(refusal("--seed", "-1"), "--seed: -1 is not a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(refusal("--seed", "18446744073709551616"),
            "--seed: 18446744073709551616 is not a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(refusal("--top-p", "1"), "");
  EXPECT_EQ(refusal("--temperature", "100"), "");
}

TEST(PrepareRequest, AFileThatIsNotThereIsNamed) {
  const auto prepared = PrepareRequest(Parse({"--prompt-ids", "/no/such/ids"}));
  EXPECT_EQ(prepared.status().code(), absl::StatusCode::kInvalidArgument);  // exit code 2
  EXPECT_NE(prepared.status().message().find("--prompt-ids: "), absl::string_view::npos);
  EXPECT_NE(prepared.status().message().find("/no/such/ids"), absl::string_view::npos);
}

}  // namespace
}  // namespace rondo::cli
