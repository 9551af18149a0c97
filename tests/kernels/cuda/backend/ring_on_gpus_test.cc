// The law on GPUs that are not there: the CUDA kernels on the emulator, behind the seams of a rank, in rings of one to
// three. What is tested is everything of a GPU rank but the CUDA runtime.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "kernels/cuda/backend/cuda_attention.h"
#include "kernels/registry.h"
#include "tests/kernels/cuda/backend/emulated_gpu.h"
#include "tests/testing/staged_transport.h"
#include "tests/worker/ring/attend_harness.h"
#include "tests/worker/ring/ring_harness.h"
#include "worker/ring/calibrate.h"
#include "worker/transport/loopback_transport.h"

namespace rondo::cuda {
namespace {

using rondo::testing::AttendAnswer;
using rondo::testing::AttendCase;
using rondo::testing::RingJob;
using rondo::testing::RingOutput;

// Runs `work` on `world` ranks, each with a GPU of its own. Returns what each launched.
template <typename Work>
std::vector<EmulatedGpu::Launched> OnGpus(int world, const Work& work) {
  LoopbackHub hub(world);
  std::vector<EmulatedGpu::Launched> launched(world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      EmulatedGpu gpu;
      const CudaAttention kernels(gpu);
      const std::unique_ptr<Transport> host = hub.Connect(rank);
      StagedTransport transport(*host, gpu);
      work(rank, kernels, transport);
      launched[rank] = gpu.launched();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return launched;
}

// Rows of a prompt go to the kernel for many rows and the drawn ones to that for few, however they are sharded.
void ExpectKernelsByKind(const RingJob& job, const std::vector<EmulatedGpu::Launched>& ranks) {
  std::set<int64_t> given, drawn;
  for (const EmulatedGpu::Launched& launched : ranks) {
    given.insert(launched.attend.begin(), launched.attend.end());
    drawn.insert(launched.decode.begin(), launched.decode.end());
  }
  ASSERT_EQ(given.size(), static_cast<size_t>(job.prompt));
  EXPECT_EQ(*given.rbegin(), job.prompt - 1);
  ASSERT_EQ(drawn.size(), static_cast<size_t>(job.decode));
  EXPECT_EQ(*drawn.begin(), job.prompt);
}

TEST(RingOnGpusTest, AJobGivesTheBitsOfOneGpu) {
  RingJob job;
  job.shape = {.q_heads = 2, .kv_heads = 1, .head_dim = 64, .kv_type = KvType::kBf16, .scale = 0.125f};
  job.shape.leaf_level = 1;
  job.layers = 1;
  job.prompt = 1100;
  job.decode = 2;
  const std::atomic<bool> never{false};
  RingOutput want;
  const auto alone = OnGpus(1, [&](int, const AttentionKernels& kernels, Transport& transport) {
    RingJob mine = job;
    mine.kernels = &kernels;
    const absl::StatusOr<RingOutput> got = RunRingJob(mine, transport, 1, never);
    ASSERT_TRUE(got.ok()) << got.status();
    want = *got;
    // p is rounded to bf16 before it meets the values: 2^-9 of each.
    for (const int64_t position : {0L, 255L, 600L, 1101L}) {
      const std::vector<double> exact = Oracle(mine, 0, position);
      for (size_t i = 0; i < exact.size(); ++i) {
        ASSERT_NEAR(got->values[position * exact.size() + i], exact[i], 0.01) << position << ", " << i;
      }
    }
  });
  if (HasFatalFailure()) return;
  ExpectKernelsByKind(job, alone);
  for (const RingStrategy strategy : {RingStrategy::kPassKv, RingStrategy::kPassQ}) {
    for (const int world : {2, 3}) {
      SCOPED_TRACE(::testing::Message() << world << " ranks, " << Name(strategy));
      const auto launched = OnGpus(world, [&](int rank, const AttentionKernels& kernels, Transport& transport) {
        RingJob mine = job;
        mine.kernels = &kernels;
        mine.strategy = strategy;
        mine.chunk = world == 3 ? 700 : 0;
        const absl::StatusOr<RingOutput> got = RunRingJob(mine, transport, world, never);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(CompareRows(mine, rank, world, *got, want), "");
      });
      ExpectKernelsByKind(job, launched);
    }
  }
}

// Packed sequences whose borders lie inside a strip, a window, sinks, a soft cap and slopes.
TEST(RingOnGpusTest, MasksAndScoresOfAnAttentionJob) {
  const auto make = [](AttendCase& c, int which) {
    c.problem.shape = {.q_heads = 2, .kv_heads = 1, .head_dim = 64, .kv_type = KvType::kBf16, .scale = 0.125f};
    c.problem.shape.leaf_level = 1;
    c.problem.q_tokens = c.problem.kv_tokens = 700;
    if (which == 0) c.starts = {0, 100, 100, 530, 700};
    if (which == 1) c.problem.mask.window = 130;
    if (which == 1) c.problem.q_tokens = 720;  // the first see nothing
    if (which == 2) {
      c.problem.mask.causal = false;
      c.sinks = {0.5f, -1.0f};
      c.slopes = {0.25f, 0.01f};
      c.problem.shape.score.softcap = 20;
    }
    c.Fill(which + 1);
  };
  for (int which = 0; which < 3; ++which) {
    SCOPED_TRACE(which);
    AttendAnswer answers[2];
    for (const int world : {1, 2}) {
      AttendCase whole;
      make(whole, which);
      AttendAnswer& answer = answers[world - 1];
      answer = EmptyAnswer(whole);
      OnGpus(world, [&](int, const AttentionKernels& kernels, Transport& transport) {
        AttendCase mine;
        mine.kernels = &kernels;
        make(mine, which);
        ThreadPool threads(1);
        const std::atomic<bool> never{false};
        const absl::StatusOr<RingReport> report = RunRank(mine, transport, threads, {}, never, answer);
        ASSERT_TRUE(report.ok()) << report.status();
      });
      if (HasFatalFailure()) return;
      EXPECT_EQ(CompareBits(whole, answer, answers[0]), "") << world;
      const rondo::testing::ExactAnswer exact = Exact(whole);
      for (size_t i = 0; i < exact.out.size(); ++i) ASSERT_NEAR(answer.out[i], exact.out[i], 0.02) << i;
      for (size_t i = 0; i < exact.lse.size(); ++i) {
        if (std::isinf(exact.lse[i])) {
          ASSERT_EQ(answer.lse[i], exact.lse[i]) << i;
        } else {
          ASSERT_NEAR(answer.lse[i], exact.lse[i], 0.02) << i;
        }
      }
    }
  }
}

TEST(RingOnGpusTest, RatesAreMeasured) {
  OnGpus(2, [](int, const AttentionKernels& kernels, Transport& transport) {
    const AttentionShape shape{.q_heads = 2,
                               .kv_heads = 1,
                               .head_dim = 64,
                               .kv_type = KvType::kBf16,
                               .scale = 0.125f,
                               .leaf_level = kernels.leaf_level()};
    ThreadPool threads(1);
    const absl::StatusOr<RingRates> rates = MeasureRates(kernels, shape, transport, threads);
    ASSERT_TRUE(rates.ok()) << rates.status();
    EXPECT_GT(rates->flops, 0);
    EXPECT_GT(rates->bytes_per_s, 0);
  });
}

TEST(KernelFamilyTest, GpusMeetTheirOwnGenerationAlone) {
  EXPECT_EQ(KernelFamily("avx2"), KernelFamily("portable"));
  EXPECT_NE(KernelFamily("sm80"), KernelFamily("sm90"));
  EXPECT_NE(KernelFamily("sm90"), KernelFamily("avx512"));
  EXPECT_EQ(LeafLevelOf(KernelFamily("avx2")), 0);
  EXPECT_EQ(rondo::kBlockTokens << LeafLevelOf(KernelFamily("sm90")), kBlockTokens);
}

}  // namespace
}  // namespace rondo::cuda
