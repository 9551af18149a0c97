// Tensors in memory that only kernels and copies may touch, over a transport that knows host memory alone: the bits are
// those of host memory.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/testing/fenced_memory.h"
#include "tests/worker/ring/attend_harness.h"
#include "tests/worker/ring/plain_kernels.h"
#include "tests/worker/ring/ring_harness.h"
#include "worker/transport/loopback_transport.h"
#include "tests/testing/staged_transport.h"

namespace rondo::testing {
namespace {

// Runs `work` on `world` ranks, each with memory, kernels and transport of its own.
template <typename Work>
void OnRanks(int world, int32_t leaf_level, const Work& work) {
  LoopbackHub hub(world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      FencedMemory memory;
      const FencedKernels kernels(PlainKernels(leaf_level), memory);
      const std::unique_ptr<Transport> host = hub.Connect(rank);
      StagedTransport transport(*host, memory);
      work(rank, kernels, transport);
      EXPECT_GT(memory.copies(), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(DeviceMemoryDeathTest, TouchingItEndsTheProgram) {
  FencedMemory memory;
  TensorBuffer buffer(memory);
  buffer.Grow(16);
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile std::byte*>(buffer.data())), "");
}

TEST(DeviceMemoryTest, AWholeJobGivesTheBitsOfHostMemory) {
  for (const RingStrategy strategy : {RingStrategy::kPassKv, RingStrategy::kPassQ}) {
    for (const int world : {1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << world << " ranks, " << Name(strategy));
      RingJob job;
      job.kernels = &PlainKernels(1);
      job.shape = {.q_heads = 2, .kv_heads = 1, .head_dim = 8, .kv_type = KvType::kBf16, .scale = 0.35355339f};
      job.shape.leaf_level = 1;
      job.prompt = 1300;
      job.decode = 3;
      job.strategy = strategy;
      const RingOutput want = RunAlone(job);
      OnRanks(world, 1, [&](int rank, const AttentionKernels& kernels, Transport& transport) {
        RingJob mine = job;
        mine.kernels = &kernels;
        const std::atomic<bool> cancelled{false};
        const absl::StatusOr<RingOutput> got = RunRingJob(mine, transport, world, cancelled);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(CompareRows(job, rank, world, *got, want), "");
      });
    }
  }
}

TEST(DeviceMemoryTest, TensorsOfAnAttentionJobToo) {
  AttendCase c;
  c.kernels = &PlainKernels();
  c.problem.shape = {.q_heads = 2, .kv_heads = 1, .head_dim = 4, .kv_type = KvType::kF32, .scale = 0.5f};
  c.problem.q_tokens = 300;  // the first rows see nothing
  c.problem.kv_tokens = 280;
  c.Fill(1);
  const AttendAnswer want = RunOnOneRank(c);
  AttendAnswer got = EmptyAnswer(c);
  OnRanks(2, 0, [&](int, const AttentionKernels& kernels, Transport& transport) {
    AttendCase mine;
    mine.kernels = &kernels;
    mine.problem = c.problem;
    mine.Fill(1);
    ThreadPool threads(1);
    const std::atomic<bool> never{false};
    const absl::StatusOr<RingReport> report = RunRank(mine, transport, threads, {}, never, got);
    ASSERT_TRUE(report.ok()) << report.status();
  });
  EXPECT_EQ(CompareBits(c, got, want), "");
}

}  // namespace
}  // namespace rondo::testing
