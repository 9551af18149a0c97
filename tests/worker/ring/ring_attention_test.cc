// The law for the ring: any number of ranks, chunks and threads, the bits of one rank.
#include "worker/ring/ring_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/registry.h"
#include "tests/worker/ring/plain_kernels.h"
#include "tests/worker/ring/ring_harness.h"
#include "worker/transport/loopback_transport.h"

namespace rondo::testing {
namespace {

RingJob SmallJob(int64_t prompt, int64_t decode, int64_t chunk, KvType type) {
  RingJob job;
  job.kernels = &PlainKernels();
  job.shape = {.q_heads = 2, .kv_heads = 1, .head_dim = 8, .kv_type = type, .scale = 0.35355339f};
  job.prompt = prompt;
  job.decode = decode;
  job.chunk = chunk;
  return job;
}

std::vector<absl::StatusOr<RingOutput>> RunOnThreads(const RingJob& job, int world, std::atomic<bool>& cancelled) {
  LoopbackHub hub(world);
  std::vector<absl::StatusOr<RingOutput>> results(world, absl::UnknownError("not run"));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      const std::unique_ptr<Transport> transport = hub.Connect(rank);
      results[rank] = RunRingJob(job, *transport, world, cancelled);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return results;
}

void ExpectSameBits(const RingJob& job, int world, const RingOutput& want) {
  SCOPED_TRACE(::testing::Message() << job.prompt << "+" << job.decode << " tokens, chunk " << job.chunk << ", "
                                    << world << " ranks, " << Name(job.shape.kv_type) << ", " << Name(job.strategy));
  std::atomic<bool> cancelled{false};
  const std::vector<absl::StatusOr<RingOutput>> results = RunOnThreads(job, world, cancelled);
  for (int rank = 0; rank < world; ++rank) {
    ASSERT_TRUE(results[rank].ok()) << results[rank].status();
    ASSERT_EQ(CompareRows(job, rank, world, *results[rank], want), "");
  }
}

TEST(RingAttentionTest, AnyWorldAndChunkGivesTheBitsOfOneRank) {
  for (const int64_t prompt : {0, 1, 5, 6, 17, 255, 256, 257, 511, 512, 513, 1100, 2000}) {
    const KvType type = prompt % 2 == 0 ? KvType::kF32 : KvType::kBf16;
    RingJob job = SmallJob(prompt, 3, 0, type);
    const RingOutput want = RunAlone(job);
    for (int world = 2; world <= 8; ++world) {
      for (const int64_t chunk : {0, 64, 256, 300}) {
        if (prompt > 600 && (world + chunk / 64) % 5 != 0) continue;  // a fifth of the slow ones
        job.chunk = chunk;
        job.threads = 1 + world % 2;
        job.strategy = (world + chunk / 64 + prompt) % 2 == 0 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
        ExpectSameBits(job, world, want);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Families whose leaves are two or four blocks: a leaf is never divided, neither by a shard nor by a chunk.
TEST(RingAttentionTest, LargerLeavesGiveTheBitsOfOneRank) {
  for (const int32_t leaf_level : {1, 2}) {
    for (const int64_t prompt : {0, 1, 255, 257, 512, 513, 1025, 2100}) {
      RingJob job = SmallJob(prompt, 3, 0, KvType::kF32);
      job.kernels = &PlainKernels(leaf_level);
      job.shape.leaf_level = leaf_level;
      const RingOutput want = RunAlone(job);
      for (const int world : {2, 3, 4, 7}) {
        for (const int64_t chunk : {0, 300}) {
          job.chunk = chunk;
          job.strategy = (world + chunk + leaf_level) % 2 == 0 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
          ExpectSameBits(job, world, want);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(RingAttentionTest, ChunksAndThreadsChangeNothingOnOneRank) {
  RingJob job = SmallJob(1100, 2, 0, KvType::kF32);
  const RingOutput want = RunAlone(job);
  for (const int64_t chunk : {1, 64, 256, 300, 1099}) {
    if (chunk == 1) job.prompt = 40;
    const RingOutput whole = chunk == 1 ? RunAlone(job) : want;
    job.chunk = chunk;
    job.threads = 2;
    EXPECT_EQ(CompareRows(job, 0, 1, RunAlone(job), whole), "") << chunk;
    job.prompt = 1100;
    job.chunk = 0;
  }
}

// Every kernel set of this host, heads as small models have them.
TEST(RingAttentionTest, HostKernelsGiveTheBitsOfOneRank) {
  for (const KernelSet& set : HostKernels()) {
    if (set.name == "ref") continue;  // plain loops in double: right, and slow
    SCOPED_TRACE(std::string(set.name));
    RingJob job = SmallJob(0, 2, 0, KvType::kF32);
    job.kernels = set.attention;
    job.shape = {.q_heads = 9, .kv_heads = 3, .head_dim = 64, .kv_type = KvType::kBf16, .scale = 0.125f};
    job.layers = 1;
    for (const int64_t prompt : {1, 70, 700, 1500}) {
      job.prompt = prompt;
      job.chunk = 0;
      job.threads = 1;
      const RingOutput want = RunAlone(job);
      job.threads = 2;
      for (const int world : {2, 3, 4}) {
        job.chunk = world == 3 ? 300 : 0;
        job.strategy = world == 2 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
        ExpectSameBits(job, world, want);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Decode rows cross block borders, and their blocks go round the ranks.
TEST(RingAttentionTest, DecodeAcrossBlocks) {
  RingJob job = SmallJob(250, 300, 0, KvType::kBf16);
  job.layers = 1;
  const RingOutput want = RunAlone(job);
  for (const int world : {2, 4, 5}) ExpectSameBits(job, world, want);
}

TEST(RingAttentionTest, AgreesWithPlainSoftmaxInDouble) {
  for (const KvType type : {KvType::kF32, KvType::kBf16}) {
    RingJob job = SmallJob(1300, 2, 512, type);
    std::atomic<bool> cancelled{false};
    const auto results = RunOnThreads(job, 3, cancelled);
    const ShardPlan plan = ShardPlan::Zigzag(job.prompt, 3, job.chunk);
    const int64_t row_size = job.shape.q_heads * job.shape.head_dim;
    for (const int64_t p : {0, 1, 255, 256, 700, 1023, 1024, 1299, 1300, 1301}) {
      const int rank = p < job.prompt ? plan.Computer(BlockOf(p)) : 2;
      ASSERT_TRUE(results[rank].ok());
      for (int32_t layer = 0; layer < job.layers; ++layer) {
        const std::vector<double> want = Oracle(job, layer, p);
        for (int64_t i = 0; i < row_size; ++i) {
          const float got = results[rank]->values[(layer * (job.prompt + job.decode) + p) * row_size + i];
          ASSERT_NEAR(got, want[i], 2e-6) << "layer " << layer << " position " << p;
        }
      }
    }
  }
}

// Long sequences go through the ring in whole blocks: bytes sent follow from the plan. Of 8 blocks on 4 ranks the last
// is seen by the rows of rank 0 alone, which computes it, but rank 3 keeps it; every other block is seen by the last
// rank on its way. All make three hops.
TEST(RingAttentionTest, SendsEachBlockOnceAroundTheRing) {
  RingJob job = SmallJob(2048, 0, 0, KvType::kF32);
  std::atomic<bool> cancelled{false};
  const auto results = RunOnThreads(job, 4, cancelled);
  uint64_t sent = 0;
  for (const auto& result : results) sent += result->stats.sent_bytes;
  const uint64_t blocks = 8 * KvBlockBytes(job.shape) * 3 * job.layers;    // each makes three hops a layer
  const uint64_t headers = 4 * 3 * sizeof(RingHeader) * (job.layers + 1);  // and the agreement at the end
  EXPECT_EQ(sent, blocks + headers);
}

// Whoever is told first, and whenever: every rank stops in the same layer, nothing stays in a mailbox, and the next
// job on the same transports is right.
TEST(RingAttentionTest, CancelAnywhereLeavesTheTransportClean) {
  RingJob next = SmallJob(300, 2, 64, KvType::kF32);
  next.number = 2;
  const RingOutput want = RunAlone(next);
  int cancelled_jobs = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const int world = 2 + static_cast<int>(seed % 4);
    // Prefill is 9 calls; decode, in every second job, 12 more.
    RingJob job = SmallJob(520, seed % 2 == 0 ? 0 : 4, 256, KvType::kF32);
    const int64_t calls_in_all = 9 + 3 * job.decode;
    job.layers = 3;
    job.strategy = seed / 2 % 2 == 0 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
    const int64_t when = static_cast<int64_t>(seed / 2 * 7) % (calls_in_all + 1);  // the last value: never
    const int who = static_cast<int>(seed / 4) % (world + 1);                      // a rank, or all of them
    LoopbackHub hub(world);
    std::vector<std::atomic<bool>> flags(world);
    std::vector<absl::Status> status(world);
    std::vector<int64_t> calls(world, 0);
    std::vector<std::string> difference(world, "not run");
    const std::atomic<bool> never{false};
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < world; ++rank) {
      ranks.emplace_back([&, rank] {
        const std::unique_ptr<Transport> transport = hub.Connect(rank);
        RingJob mine = job;
        mine.before_layer = [&, rank](int64_t call) {
          calls[rank] = call + 1;
          if (call == when && (who == rank || who == world)) flags[rank] = true;
        };
        status[rank] = RunRingJob(mine, *transport, world, flags[rank]).status();
        const absl::StatusOr<RingOutput> after = RunRingJob(next, *transport, world, never);
        difference[rank] = after.ok() ? CompareRows(next, rank, world, *after, want) : after.status().ToString();
      });
    }
    for (std::thread& rank : ranks) rank.join();
    for (int rank = 0; rank < world; ++rank) {
      ASSERT_TRUE(status[rank].ok() || absl::IsCancelled(status[rank])) << status[rank];
      ASSERT_EQ(status[rank].ok(), status[0].ok()) << status[rank];
      ASSERT_EQ(calls[rank], calls[0]) << "ranks stopped in different layers";
      ASSERT_EQ(difference[rank], "");
    }
    ASSERT_EQ(status[0].ok(), when >= calls_in_all) << "call " << when << " by " << who;
    cancelled_jobs += status[0].ok() ? 0 : 1;
  }
  EXPECT_GT(cancelled_jobs, 80);
}

TEST(RingAttentionTest, OneRankNoticesBetweenStrips) {
  RingJob job = SmallJob(1000, 0, 0, KvType::kF32);
  LoopbackHub hub(1);
  const std::unique_ptr<Transport> transport = hub.Connect(0);
  const std::atomic<bool> cancelled{true};
  EXPECT_EQ(RunRingJob(job, *transport, 1, cancelled).status().code(), absl::StatusCode::kCancelled);
}

// Two ranks that are not in the same job must not take each other's blocks.
TEST(RingAttentionTest, AnotherJobsMessageIsAnErrorNamingBoth) {
  LoopbackHub hub(2);
  const std::atomic<bool> never{false};
  std::vector<absl::Status> status(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const std::unique_ptr<Transport> transport = hub.Connect(rank);
      RingJob job = SmallJob(600, 0, 0, KvType::kF32);
      job.number = 10 + rank;
      status[rank] = RunRingJob(job, *transport, 2, never).status();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const bool first = status[0].code() == absl::StatusCode::kInternal;
  const absl::Status& seen = status[first ? 0 : 1];
  EXPECT_EQ(seen.code(), absl::StatusCode::kInternal) << seen;
  EXPECT_NE(std::string(seen.message()).find("job 10"), std::string::npos) << seen;
  EXPECT_NE(std::string(seen.message()).find("job 11"), std::string::npos) << seen;
  EXPECT_FALSE(status[first ? 1 : 0].ok());
}

TEST(RingAttentionTest, ALostPeerEndsTheWaitWithItsName) {
  LoopbackHub hub(2);
  std::unique_ptr<Transport> alive = hub.Connect(0);
  hub.Connect(1).reset();
  const std::atomic<bool> never{false};
  const absl::Status status = RunRingJob(SmallJob(600, 0, 0, KvType::kF32), *alive, 2, never).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find("rank 1"), std::string::npos) << status;
}

TEST(RingAttentionTest, ASilentPeerEndsTheWaitAtTheDeadline) {
  LoopbackHub hub(2);
  std::unique_ptr<Transport> alive = hub.Connect(0);
  std::unique_ptr<Transport> silent = hub.Connect(1);
  const std::atomic<bool> never{false};
  RingJob job = SmallJob(600, 0, 0, KvType::kF32);
  job.timeout = absl::Milliseconds(50);
  EXPECT_EQ(RunRingJob(job, *alive, 2, never).status().code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace rondo::testing
