// Tensors in memory that only kernels and copies may touch, over a transport that knows host memory alone: the bits are
// those of host memory.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/bf16.h"
#include "model/kv/kv_arena.h"
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

// Keys and values of an attention job are uploaded at the same time.
TEST(DeviceMemoryTest, ThreadsStoreRowsAtOnce) {
  FencedMemory memory;
  const AttentionShape shape{.q_heads = 2, .kv_heads = 2, .head_dim = 8, .kv_type = KvType::kBf16, .scale = 1};
  constexpr int kThreads = 4;
  absl::StatusOr<KvArena> arena = KvArena::Create(shape, 1, kThreads, memory);
  ASSERT_TRUE(arena.ok());
  const size_t floats = kBlockTokens * shape.kv_heads * shape.head_dim;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<float> k(floats, static_cast<float>(1 + t)), v(floats, static_cast<float>(-1 - t));
      for (int64_t row = 0; row < kBlockTokens; row += 32) {
        arena->StoreRows(0, t, row, 32, k.data(), nullptr);
        arena->StoreRows(0, t, row, 32, nullptr, v.data());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<uint16_t> block(arena->block_bytes() / sizeof(uint16_t));
  for (int t = 0; t < kThreads; ++t) {
    memory.Copy(block.data(), arena->Block(0, t), arena->block_bytes());
    for (size_t i = 0; i < block.size(); ++i) {
      ASSERT_EQ(Bf16ToFloat(block[i]), i < block.size() / 2 ? 1 + t : -1 - t) << t << " " << i;
    }
  }
}

// Host memory of so many bytes.
class FewBytes : public TensorMemory {
 public:
  explicit FewBytes(size_t bytes) : left_(bytes) {}
  void* Allocate(size_t bytes) override {
    if (bytes > left_) return nullptr;
    left_ -= bytes;
    return HostMemory().Allocate(bytes);
  }
  void Free(void* p, size_t bytes) override {
    left_ += bytes;
    HostMemory().Free(p, bytes);
  }
  bool is_host() const override { return true; }
  bool Owns(const void*) const override { return true; }
  void Copy(void* to, const void* from, size_t bytes) override { HostMemory().Copy(to, from, bytes); }

 private:
  size_t left_;
};

TEST(TensorBuffer, KeepsItsSizeWhereThereIsNoMore) {
  FewBytes memory(100);
  TensorBuffer buffer(memory);
  EXPECT_FALSE(buffer.TryGrow(101));
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_TRUE(buffer.TryGrow(60));
  EXPECT_TRUE(buffer.TryGrow(80)) << "there is no room for both";
  EXPECT_FALSE(buffer.TryGrow(200));
  EXPECT_EQ(buffer.bytes(), 80u);
  EXPECT_NE(buffer.data(), nullptr);
}

}  // namespace
}  // namespace rondo::testing
