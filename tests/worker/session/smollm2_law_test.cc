// The law on a real model and a real text: SmolLM2-135M reads more than 5,000 tokens of a novel in a chat, and every
// group gives the answer of one worker bit for bit. Minutes of work: the settings are chosen so that each covers
// several of the things a schedule may choose. RONDO_LAW_FULL=1 takes every number of workers, and f32 all of the text.

#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "model/tokenizer/chat_format.h"
#include "tests/testing/test_data.h"
#include "tests/worker/session/law_jobs.h"

namespace rondo::testing {
namespace {

constexpr int64_t kAnswerTokens = 8;

class Smollm2Law : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::optional<std::string> path = OutsideModel();
    if (!path) GTEST_SKIP() << "RONDO_TEST_MODEL does not name SmolLM2-135M-Instruct.Q4_1.gguf";
    absl::StatusOr<TestModel> model = LoadTestModel(*path);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  // The document, cut after `bytes`, and a question about it.
  StartJob Question(size_t bytes) {
    std::string document = ReadWholeFile(RONDO_SOURCE_DIR "/examples/frankenstein-letters.txt").value();
    if (bytes < document.size()) document.resize(bytes);  // plain ASCII or not: the tokenizer takes any bytes
    ChatTurns turns;
    turns.user = absl::StrCat(absl::StripTrailingAsciiWhitespace(document), "\n\n", "Who writes these letters?");
    StartJob job;
    job.id = "question";
    job.prompt = EncodeChat(*model_.tokenizer, turns).value();
    job.max_tokens = kAnswerTokens;
    return job;
  }

  // One worker with two threads, the prompt in one piece: what all others are compared with.
  void ExpectSame(const StartJob& job, ComputeMode compute, KvType kv_type, std::vector<SessionOptions> others) {
    SessionOptions one;
    one.threads = 2;
    one.compute = compute;
    one.kv_type = kv_type;
    one.job_timeout = absl::Minutes(12);
    const absl::StatusOr<Records> want = RunTogether(model_, one, {job});
    ASSERT_TRUE(want.ok()) << want.status();
    const JobRecord& record = want->at(job.id);
    std::printf("%zu tokens, %s, digest %s\n", job.prompt.size(), Describe(one).c_str(), record.result.digest.c_str());
    EXPECT_GE(record.tokens.size(), 4u);
    for (SessionOptions& options : others) {
      options.compute = compute;
      options.kv_type = kv_type;
      options.ring_timeout = absl::Minutes(10);
      options.job_timeout = absl::Minutes(12);
      const absl::StatusOr<Records> got = RunTogether(model_, options, {job});
      ASSERT_TRUE(got.ok()) << Describe(options) << ": " << got.status();
      EXPECT_EQ(Differences(*got, *want), "") << Describe(options);
      std::printf("as %s\n", Describe(options).c_str());
    }
  }

  TestModel model_;
};

SessionOptions Ring(int world, int threads, int64_t chunk) {
  SessionOptions options;
  options.world = world;
  options.threads = threads;
  options.prefill_chunk = chunk;
  return options;
}

bool Full() { return std::getenv("RONDO_LAW_FULL") != nullptr; }

TEST_F(Smollm2Law, Q8) {
  const StartJob job = Question(size_t{1} << 20);
  ASSERT_GE(job.prompt.size(), 5000u);
  std::vector<SessionOptions> others = {Ring(4, 1, 256), Ring(7, 1, 0)};
  if (Full()) others = {Ring(2, 2, 0), Ring(3, 1, 64), Ring(4, 1, 256), Ring(5, 2, 0), Ring(7, 1, 0), Ring(8, 1, 256)};
  ExpectSame(job, ComputeMode::kQ8, KvType::kF32, others);
}

TEST_F(Smollm2Law, Q8WithBf16Kv) {
  const StartJob job = Question(size_t{1} << 20);
  ASSERT_GE(job.prompt.size(), 5000u);
  std::vector<SessionOptions> others = {Ring(3, 1, 0)};
  if (Full()) others = {Ring(2, 1, 256), Ring(3, 1, 0), Ring(4, 2, 64), Ring(5, 1, 0), Ring(7, 1, 256), Ring(8, 1, 0)};
  ExpectSame(job, ComputeMode::kQ8, KvType::kBf16, others);
}

TEST_F(Smollm2Law, F32) {
  // Float32 matrices take several times as long: a quarter of the text.
  const StartJob job = Question(Full() ? size_t{1} << 20 : 6500);
  ASSERT_GE(job.prompt.size(), 1300u);
  ExpectSame(job, ComputeMode::kF32, KvType::kF32, {Ring(5, 1, 0)});
}

}  // namespace
}  // namespace rondo::testing
