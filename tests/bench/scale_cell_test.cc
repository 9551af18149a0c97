// The parts of scale_rank: generated tensors, the digest in row order, the gathering of records, the traced waits, and
// a whole cell on rings of several sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/sha256.h"
#include "bench/scale/cell.h"
#include "bench/scale/generated_rows.h"
#include "bench/scale/head_shape.h"
#include "bench/scale/row_digest.h"
#include "bench/scale/traced_transport.h"
#include "worker/transport/loopback_transport.h"

namespace rondo {
namespace {

using ::testing::HasSubstr;

// Calls `rank_main` on a thread of each rank.
void OnRing(int world, const std::function<void(Transport&)>& rank_main) {
  LoopbackHub hub(world);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < world; ++rank) transports.push_back(hub.Connect(rank));
  std::vector<std::thread> threads;
  for (auto& transport : transports) threads.emplace_back([&] { rank_main(*transport); });
  for (std::thread& thread : threads) thread.join();
}

TEST(GeneratedRows, DependOnTheRowAlone) {
  std::vector<float> whole(7 * 5), part(2 * 5), other(2 * 5);
  GenerateRows(3, GeneratedTensor::kKeys, 10, 7, 5, whole.data());
  GenerateRows(3, GeneratedTensor::kKeys, 14, 2, 5, part.data());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 4 * 5));
  GenerateRows(3, GeneratedTensor::kValues, 14, 2, 5, other.data());
  EXPECT_NE(part, other);
  GenerateRows(4, GeneratedTensor::kKeys, 14, 2, 5, other.data());
  EXPECT_NE(part, other);
}

TEST(GeneratedRows, FillTheRangeEvenly) {
  std::vector<float> x(100 * 100);
  GenerateRows(1, GeneratedTensor::kQueries, 0, 100, 100, x.data());
  double sum = 0, squares = 0;
  for (const float v : x) {
    ASSERT_GE(v, -2);
    ASSERT_LT(v, 2);
    sum += v;
    squares += double{v} * v;
  }
  EXPECT_NEAR(sum / 1e4, 0, 0.05);            // four standard deviations of the mean
  EXPECT_NEAR(squares / 1e4, 4.0 / 3, 0.05);  // of the uniform distribution
}

TEST(HeadShape, ReadsAndRefuses) {
  const auto shape = ParseHeads("32/8x128", KvType::kBf16);
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->q_heads, 32);
  EXPECT_EQ(shape->kv_heads, 8);
  EXPECT_EQ(shape->head_dim, 128);
  EXPECT_EQ(shape->scale, 1.0f / std::sqrt(128.0f));
  for (const char* bad : {"", "32", "32/8", "32x8/128", "3/2x64", "0/1x64", "8/0x64", "8/2x0", "8/2x64x1", "8/2x-4"}) {
    const auto wrong = ParseHeads(bad, KvType::kF32);
    ASSERT_FALSE(wrong.ok()) << bad;
    EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("Q/KVxD")) << bad;
  }
}

TEST(CausalFlops, CountsVisiblePairs) {
  // Three rows see 1, 2 and 3 keys; a pair costs 2 * 4 for the score and 2 * 4 for the value, in each of 2 heads.
  EXPECT_EQ(CausalFlops(3, 2, 4), 6 * 16 * 2);
}

TEST(RowDigest, IsThatOfTheWholeMatrix) {
  // 5 rows of 3: rank 1 has rows 0 and 3, rank 2 rows 1 and 2, rank 0 row 4.
  std::vector<float> whole(5 * 3);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i);
  Sha256 sha;
  sha.Update(whole.data(), whole.size() * sizeof(float));
  const std::vector<std::vector<PositionRun>> rows_of = {{{4, 5}}, {{0, 1}, {3, 4}}, {{1, 3}}};
  std::vector<std::string> digests(3);
  OnRing(3, [&](Transport& t) {
    std::vector<float> own;
    for (const PositionRun& run : rows_of[t.rank()]) {
      own.insert(own.end(), whole.begin() + run.begin * 3, whole.begin() + run.end * 3);
    }
    digests[t.rank()] = *RowOrderDigest(t, rows_of, 3, own.data());
  });
  EXPECT_EQ(digests[0], sha.HexDigest());
  EXPECT_EQ(digests[1], "");
}

TEST(GatherJson, ComesInRankOrder) {
  std::vector<nlohmann::ordered_json> all;
  OnRing(4, [&](Transport& t) {
    auto gathered = GatherJson(t, {{"rank", t.rank()}, {"pad", std::string(t.rank() * 10000, 'x')}});
    ASSERT_TRUE(gathered.ok());
    EXPECT_EQ(gathered->size(), t.rank() == 0 ? 4u : 0u);
    if (t.rank() == 0) all = *gathered;
  });
  ASSERT_EQ(all.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(all[rank]["rank"], rank);
  EXPECT_EQ(all[3]["pad"].get<std::string>().size(), 30000u);
}

TEST(TracedTransport, CutsStepsWhereSomethingIsSent) {
  std::vector<std::vector<StepRecord>> steps(2);
  OnRing(2, [&](Transport& t) {
    TracedTransport traced(t);
    const int peer = 1 - t.rank();
    std::vector<std::byte> send(100), recv(100), header(8), received(8);
    traced.Start();
    for (int step = 0; step < 2; ++step) {
      const auto first = traced.SendRecv(peer, header, peer, absl::MakeSpan(received));
      const auto second = traced.SendRecv(peer, send, peer, absl::MakeSpan(recv));
      ASSERT_TRUE(traced.Wait(*first, absl::InfiniteFuture()).ok());
      ASSERT_TRUE(traced.Wait(*second, absl::InfiniteFuture()).ok());
    }
    steps[t.rank()] = traced.Stop();
  });
  for (const std::vector<StepRecord>& own : steps) {
    ASSERT_EQ(own.size(), 3u);  // two with a wait and the rest
    EXPECT_EQ(own[0].sent_bytes, 108u);
    EXPECT_EQ(own[1].sent_bytes, 108u);
    EXPECT_EQ(own[2].sent_bytes, 0u);
    EXPECT_EQ(own[2].exposed_wait, absl::ZeroDuration());
    absl::Duration at;
    for (const StepRecord& step : own) {  // nothing is lost between steps
      EXPECT_EQ(step.begin, at);
      at = step.begin + step.compute + step.exposed_wait;
    }
  }
}

TEST(TensorCell, GivesTheBitsOfOneWorkerAndCountsItsBytes) {
  const KernelSet kernels = SelectKernels("").value();
  CellOptions o;
  o.tokens = 1500;  // six blocks, the last not full
  o.heads = "4/2x16";
  std::string digest;
  for (const auto& [world, strategy] : std::vector<std::pair<int, const char*>>{
           {1, "auto"}, {2, "auto"}, {2, "pass-kv"}, {3, "pass-kv"}, {2, "pass-q"}, {3, "pass-q"}}) {
    o.strategy = strategy;
    std::vector<CellOutcome> outcomes(world);
    OnRing(world, [&](Transport& t) {
      ThreadPool pool(1);
      auto outcome = RunTensorCell(o, kernels, t, pool);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      outcomes[t.rank()] = *outcome;
    });
    if (world == 1) digest = outcomes[0].digest;
    EXPECT_EQ(outcomes[0].digest, digest) << world << " " << strategy;
    EXPECT_EQ(outcomes[0].strategy, world > 1 && o.strategy != "auto" ? strategy : outcomes[0].strategy);
    EXPECT_EQ(outcomes[0].digest.size(), 64u);
    for (const CellOutcome& outcome : outcomes) {
      uint64_t sent = 0;
      for (const StepRecord& step : outcome.record.steps) sent += step.sent_bytes;
      EXPECT_EQ(outcome.record.sent_bytes > 0, world > 1);
      EXPECT_EQ(sent, outcome.record.sent_bytes);
    }
  }
  o.seed = 2;
  OnRing(1, [&](Transport& t) {
    ThreadPool pool(1);
    EXPECT_NE(RunTensorCell(o, kernels, t, pool)->digest, digest);
  });
}

}  // namespace
}  // namespace rondo
