// What one rank's loop reports about jobs: figures, reasons, logits; and that the ring's answer is the decoder's own.

#include "worker/session/step_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "model/decoder/local_attention.h"
#include "model/decoder/reference_decoder.h"
#include "tests/worker/session/law_jobs.h"

namespace rondo::testing {
namespace {

const TestModel& Model() {
  static const TestModel model = TinyModel(false).value();
  return model;
}

StartJob Job(const std::string& id, int64_t prompt, int64_t max_tokens) {
  StartJob job;
  job.id = id;
  job.prompt = RandomPrompt(prompt, 21);
  job.max_tokens = max_tokens;
  job.want_logits = true;
  return job;
}

int32_t ArgMax(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::string DigestOf(const std::vector<std::vector<float>>& logits) {
  Sha256 digest;
  for (const std::vector<float>& row : logits) digest.Update(row.data(), row.size() * sizeof(float));
  return digest.HexDigest();
}

TEST(StepLoop, ReportsAJob) {
  SessionOptions options;
  options.world = 4;
  options.prefill_chunk = 256;
  SessionGroup group(Model(), options);
  const absl::StatusOr<JobRecord> record = group.RunJob(Job("job", 1500, 5));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->result.finish_reason, "length");
  EXPECT_EQ(record->result.steps, 5);
  ASSERT_EQ(record->tokens.size(), 5u);
  ASSERT_EQ(record->logits.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(record->tokens[i], ArgMax(record->logits[i])) << i;
  EXPECT_EQ(record->result.digest, DigestOf(record->logits));
  EXPECT_TRUE(std::is_sorted(record->progress.begin(), record->progress.end()));
  EXPECT_EQ(record->progress.back(), 1.0);
  EXPECT_EQ(record->result.strategy, "pass-kv");
  EXPECT_GT(record->result.exchanged_bytes, 0u);

  // 1,505 tokens are six blocks: K and V in each of five layers, on four ranks.
  const AttentionShape shape = ShapeOf(Model().model->config, *SelectKernels("").value().attention, KvType::kF32);
  const std::vector<uint64_t>& bytes = record->result.kv_bytes_per_worker;
  ASSERT_EQ(bytes.size(), 4u);
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}), 6 * 5 * KvBlockBytes(shape));
  EXPECT_LE(*std::max_element(bytes.begin(), bytes.end()) - *std::min_element(bytes.begin(), bytes.end()),
            5 * KvBlockBytes(shape));
}

// The decoder over LocalAttention knows nothing of plans, rings and steps.
TEST(StepLoop, GivesTheLogitsOfTheDecoderAlone) {
  const StartJob job = Job("job", 1100, 4);
  const ModelConfig& config = Model().model->config;
  const KernelSet kernels = SelectKernels("").value();
  ThreadPool pool(1);
  Decoder decoder(config, Model().model->weights, *kernels.dense, ComputeMode::kF32, pool);
  LocalAttention attention(
      *kernels.attention,
      KvArena::Create(ShapeOf(config, *kernels.attention, KvType::kF32), config.layers, BlocksFor(1104)).value(), pool);
  std::vector<std::vector<float>> logits;
  std::vector<int32_t> feed = job.prompt;
  int64_t position = 0;
  for (int64_t step = 0; step < job.max_tokens; ++step) {
    const PositionRun run{position, position + static_cast<int64_t>(feed.size())};
    std::vector<float> hidden(feed.size() * config.embedding);
    ASSERT_TRUE(decoder.Forward(RowKind::kGiven, feed, {&run, 1}, attention, hidden.data(), [](int32_t) {}).ok());
    logits.emplace_back(config.vocab);
    decoder.Logits(&hidden[(feed.size() - 1) * config.embedding], 1, logits.back().data());
    position = run.end;
    feed = {ArgMax(logits.back())};
  }
  for (const int world : {1, 3}) {
    SessionOptions options;
    options.world = world;
    SessionGroup group(Model(), options);
    const absl::StatusOr<JobRecord> record = group.RunJob(job);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->logits, logits) << world;
    EXPECT_EQ(record->result.digest, DigestOf(logits)) << world;
    EXPECT_EQ(record->result.strategy, world == 1 ? "local" : "pass-kv");
  }
}

// By which the coordinator tells a busy rank from a stuck one: also within one long step, and on every rank.
TEST(StepLoop, ProgressGrowsWithEveryTask) {
  SessionOptions options;
  options.world = 2;
  SessionGroup group(Model(), options);
  const uint64_t before[] = {group.loop(0).progress(), group.loop(1).progress()};
  ASSERT_TRUE(group.RunJob(Job("job", 1100, 1)).ok());
  // One prefill step of five layers: each has several products and an attention, each at least a task.
  for (int rank = 0; rank < 2; ++rank) EXPECT_GE(group.loop(rank).progress() - before[rank], 5u * 5) << rank;
}

TEST(StepLoop, FeedsForcedTokensAndEndsAfterThem) {
  SessionOptions options;
  options.world = 2;
  SessionGroup group(Model(), options);
  StartJob job = Job("job", 40, 4);
  job.forced_tokens = {5, 6, 7, 8};
  const absl::StatusOr<JobRecord> record = group.RunJob(job);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->tokens, job.forced_tokens);
  EXPECT_EQ(record->result.finish_reason, "length");

  // Position by position they are the logits of the longer prompts.
  StartJob longer = Job("longer", 40, 1);
  longer.prompt.insert(longer.prompt.end(), {5, 6, 7});
  const absl::StatusOr<JobRecord> last = group.RunJob(longer);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(record->logits[3], last->logits[0]);
}

TEST(StepLoop, StopsAtAStopString) {
  SessionOptions options;
  options.world = 2;
  SessionGroup group(Model(), options);
  const absl::StatusOr<JobRecord> all = group.RunJob(Job("job", 300, 24));
  ASSERT_TRUE(all.ok()) << all.status();
  const absl::StatusOr<StartJob> stops = WithStop(Model(), Job("job", 300, 24), *all);
  ASSERT_TRUE(stops.ok()) << stops.status();
  const absl::StatusOr<JobRecord> record = group.RunJob(*stops);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->result.finish_reason, "stop");
  ASSERT_LT(record->tokens.size(), 24u);
  EXPECT_TRUE(std::equal(record->tokens.begin(), record->tokens.end(), all->tokens.begin()));
  EXPECT_NE(Model().tokenizer->TokenBytes(record->tokens.back()).find(stops->stops.back()), std::string_view::npos);
}

// Rank 0 alone, in float64, while other ranks wait: close to the group's own logits and not the same.
TEST(StepLoop, ReferenceJobIsNearTheRings) {
  SessionOptions options;
  options.world = 3;
  SessionGroup group(Model(), options);
  const absl::StatusOr<JobRecord> ring = group.RunJob(Job("ring", 70, 3));
  ASSERT_TRUE(ring.ok()) << ring.status();
  StartJob exact = Job("exact", 70, 3);
  exact.reference = true;
  exact.forced_tokens = ring->tokens;
  const absl::StatusOr<JobRecord> reference = group.RunJob(exact);
  ASSERT_TRUE(reference.ok()) << reference.status();
  EXPECT_EQ(reference->result.strategy, "reference");
  ASSERT_EQ(reference->logits.size(), 3u);
  double largest = 0;
  for (size_t step = 0; step < 3; ++step) {
    for (size_t i = 0; i < ring->logits[step].size(); ++i) {
      largest = std::max(largest, std::fabs(double{ring->logits[step][i]} - double{reference->logits[step][i]}));
    }
  }
  EXPECT_LT(largest, 1e-3);
  EXPECT_NE(reference->result.digest, ring->result.digest);
  EXPECT_TRUE(group.RunJob(Job("after", 300, 2)).ok());
}

TEST(StepLoop, AReferenceJobThatMemoryCannotHoldIsRefused) {
  std::atomic<uint64_t> available{0};
  SessionOptions options;
  options.world = 2;
  options.available_memory = [&] { return available.load(); };
  SessionGroup group(Model(), options);
  StartJob job = Job("exact", 70, 3);
  job.reference = true;
  const uint64_t need = ReferenceDecoder::MemoryBytes(Model().model->config, 70, 73, 1);
  available = need - 1;
  const absl::StatusOr<JobRecord> refused = group.RunJob(job);
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_EQ(refused->result.finish_reason, "error");
  EXPECT_EQ(refused->result.error,
            absl::ResourceExhaustedError(absl::StrCat("memory: the float64 reference of 70 + 3 tokens needs ", need,
                                                      " bytes, rank 0's machine has ", need - 1, " available")));
  EXPECT_TRUE(refused->tokens.empty());
  available = need;
  job.id = "fits";
  const absl::StatusOr<JobRecord> fits = group.RunJob(job);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(fits->result.finish_reason, "length");
}

}  // namespace
}  // namespace rondo::testing
