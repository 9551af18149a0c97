// Attention of one rank against softmax by the textbook in double; chunks, several runs, and its limit.
#include "model/decoder/local_attention.h"

#include <cmath>
#include <cstring>

#include "base/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/registry.h"

namespace rondo {
namespace {

constexpr int kQHeads = 4, kKvHeads = 2, kDim = 8;
constexpr int64_t kTokens = 5 * kBlockTokens + 19;  // a tree of two complete subtrees and a partly filled block

std::vector<float> Numbers(size_t count, uint32_t seed) {
  std::vector<float> numbers(count);
  for (float& x : numbers) {
    seed = seed * 1664525 + 1013904223;
    x = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-30f;  // [-2, 2)
  }
  return numbers;
}

class LocalAttentionTest : public testing::Test {
 protected:
  LocalAttention Make(const KernelSet& kernels, int64_t slots = BlocksFor(kTokens)) {
    return {*kernels.attention, *KvArena::Create(shape_, 1, slots), pool_};
  }
  absl::Status Run(LocalAttention& attention, absl::Span<const PositionRun> runs, std::vector<float>* out) {
    const int64_t first = runs[0].begin;
    return attention.Run(0, runs, &q_[first * kQHeads * kDim], &k_[first * kKvHeads * kDim],
                         &v_[first * kKvHeads * kDim], &(*out)[first * kQHeads * kDim]);
  }
  std::vector<float> Empty() const { return std::vector<float>(q_.size(), NAN); }

  const AttentionShape shape_{kQHeads, kKvHeads, kDim, KvType::kF32, 0.5f};
  const std::vector<float> q_ = Numbers(kTokens * kQHeads * kDim, 1);
  const std::vector<float> k_ = Numbers(kTokens * kKvHeads * kDim, 2);
  const std::vector<float> v_ = Numbers(kTokens * kKvHeads * kDim, 3);
  ThreadPool pool_{2};
};

TEST_F(LocalAttentionTest, MeetsTheTextbook) {
  for (const KernelSet& kernels : HostKernels()) {
    LocalAttention attention = Make(kernels);
    std::vector<float> out = Empty();
    ASSERT_TRUE(Run(attention, {{0, kTokens}}, &out).ok());
    for (int64_t row : {int64_t{0}, int64_t{1}, int64_t{255}, int64_t{256}, int64_t{700}, kTokens - 1}) {
      for (int h = 0; h < kQHeads; ++h) {
        std::vector<double> weight;
        double sum = 0;
        for (int64_t t = 0; t <= row; ++t) {
          double score = 0;
          for (int d = 0; d < kDim; ++d) {
            score += double{q_[(row * kQHeads + h) * kDim + d]} * k_[(t * kKvHeads + h / 2) * kDim + d];
          }
          weight.push_back(std::exp(score * 0.5));
          sum += weight.back();
        }
        for (int d = 0; d < kDim; ++d) {
          double expected = 0;
          for (int64_t t = 0; t <= row; ++t) expected += weight[t] / sum * v_[(t * kKvHeads + h / 2) * kDim + d];
          EXPECT_NEAR(out[(row * kQHeads + h) * kDim + d], expected, 1e-5) << kernels.name << " row " << row;
        }
      }
    }
  }
}

TEST_F(LocalAttentionTest, ChunksAndRunsDoNotChangeBits) {
  for (const KernelSet& kernels : HostKernels()) {
    std::vector<float> whole = Empty(), parts = Empty();
    LocalAttention once = Make(kernels), often = Make(kernels);
    ASSERT_TRUE(Run(once, {{0, kTokens}}, &whole).ok());
    ASSERT_TRUE(Run(often, {{0, 100}, {100, 100}, {100, 513}}, &parts).ok());
    ASSERT_TRUE(Run(often, {{513, 514}}, &parts).ok());
    ASSERT_TRUE(Run(often, {{514, 514}}, &parts).ok());
    ASSERT_TRUE(Run(often, {{514, kTokens}}, &parts).ok());
    EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)), 0) << kernels.name;
    often.Clear();
    parts = Empty();
    ASSERT_TRUE(Run(often, {{0, kTokens}}, &parts).ok());
    EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)), 0) << kernels.name;
  }
}

TEST_F(LocalAttentionTest, SaysWhenTheArenaIsFull) {
  LocalAttention attention = Make(*SelectKernels(""), 1);
  std::vector<float> out = Empty();
  EXPECT_EQ(Run(attention, {{0, 257}}, &out).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Run(attention, {{0, 256}}, &out).ok());
  EXPECT_EQ(Run(attention, {{256, 257}}, &out).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace rondo
