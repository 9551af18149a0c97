// Argmax and top-k against a sort on the host: ties, infinities, numbers that are none, rows of any length.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/dense/argmax.cuh"
#include "kernels/cuda/dense/ranked_token.h"
#include "kernels/cuda/dense/top_k.cuh"
#include "tests/kernels/cuda/dense/emulated.h"

namespace rondo::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<uint64_t> RunTopK(const std::vector<float>& logits, int64_t rows, int32_t count, int32_t k,
                              const HowToRun& how = {}) {
  auto out = Poisoned<uint64_t>(rows * k);
  auto scratch = Poisoned<uint64_t>(TopKScratchRanks(rows, count, k));
  ForTopKRounds(logits.data(), rows, count, k, scratch.data(), out.data(), [&](const TopKArgs& args, int32_t) {
    EmulatedLaunch launch(how);
    launch.In(logits, "logits");
    launch.Out(scratch, "scratch");
    launch.Out(out, "out");
    launch.Run(kTopKThreads, kTopKSharedBytes, [&] { TopK(args); });
    return std::string();
  });
  return out;
}

std::vector<uint64_t> RunArgmax(const std::vector<float>& logits, int64_t rows, int32_t count,
                                const HowToRun& how = {}) {
  auto out = Poisoned<uint64_t>(rows);
  EmulatedLaunch launch(how);
  const TopKArgs args{
      .logits = launch.In(logits, "logits"), .ranks_out = launch.Out(out, "out"), .rows = rows, .count = count};
  launch.Run(kArgmaxThreads, kArgmaxSharedBytes, [&] { Argmax(args); });
  return out;
}

// Ids of a row, likeliest first; stable, so that ties stay in order of ids. What no model gives comes first.
std::vector<int32_t> Sorted(const float* logits, int32_t count) {
  std::vector<int32_t> ids(count);
  for (int32_t i = 0; i < count; ++i) ids[i] = i;
  const auto key = [&](int32_t i) { return std::isnan(logits[i]) ? kInfinity : logits[i]; };
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return key(a) > key(b); });
  return ids;
}

void ExpectToken(const float* logits, int32_t id, uint64_t rank) {
  const RankedToken token = TokenOfRank(rank);
  ASSERT_EQ(id, token.id);
  if (std::isnan(logits[id]) || logits[id] == kInfinity) {
    ASSERT_TRUE(std::isnan(token.logit));
  } else {
    ASSERT_EQ(logits[id], token.logit);
  }
}

void ExpectRight(const std::vector<float>& logits, int64_t rows, int32_t count, int32_t k, const HowToRun& how = {}) {
  const std::vector<uint64_t> top = RunTopK(logits, rows, count, k, how);
  const std::vector<uint64_t> best = RunArgmax(logits, rows, count, how);
  ASSERT_EQ(static_cast<int64_t>(top.size()), rows * k);
  for (int64_t row = 0; row < rows; ++row) {
    const float* of_row = logits.data() + row * count;
    const std::vector<int32_t> ids = Sorted(of_row, count);
    for (int32_t i = 0; i < k; ++i) {
      if (i < count) {
        ExpectToken(of_row, ids[i], top[row * k + i]);
      } else {
        ASSERT_EQ(-1, TokenOfRank(top[row * k + i]).id);
      }
    }
    ExpectToken(of_row, ids[0], best[row]);
  }
}

// Few values, so that many tie.
std::vector<float> Coarse(int64_t count, uint64_t seed) {
  std::vector<float> values = Uniform(count, 40, seed);
  for (float& v : values) v = std::round(v) / 4;
  return values;
}

TEST(CudaRanking, LengthsAndDepths) {
  ExpectRight(Uniform(3 * 1, 5, 1), 3, 1, 1);
  ExpectRight(Uniform(3 * 33, 5, 2), 3, 33, 7);
  ExpectRight(Uniform(2 * 2047, 5, 3), 2, 2047, 64);
  ExpectRight(Uniform(2 * 2049, 5, 4), 2, 2049, kMostTopK);
  ExpectRight(Uniform(2 * 9001, 5, 5), 2, 9001, 40);
  ExpectRight(Uniform(2 * 9001, 5, 5), 2, 9001, 700);  // four rounds
  ExpectRight(Uniform(2 * 20, 5, 6), 2, 20, 50);       // fewer tokens than asked for
}

TEST(CudaRanking, TiesGoToTheLowestId) {
  ExpectRight(Coarse(2 * 5000, 7), 2, 5000, 100);
  ExpectRight(std::vector<float>(4500, -3.5f), 1, 4500, 20);
  std::vector<float> zeros(100, -0.0f);
  zeros[50] = 0.0f;
  ExpectRight(zeros, 1, 100, 60);
}

TEST(CudaRanking, NumbersThatAreNone) {
  std::vector<float> logits = Uniform(3000, 5, 8);
  logits[100] = -kInfinity;
  ExpectRight(logits, 1, 3000, 9);
  logits[2900] = -kNaN;
  logits[2500] = kInfinity;
  logits[2600] = kNaN;
  ExpectRight(logits, 1, 3000, 9);
  ExpectRight(std::vector<float>(40, -kInfinity), 1, 40, 5);
}

TEST(CudaRanking, ExtremeValues) {
  std::vector<float> logits = {3e38f, -3e38f, 1e-45f, -1e-45f, 0.0f, -0.0f, 1.0f, -1.0f};
  ExpectRight(logits, 1, 8, 8);
}

TEST(CudaRanking, EveryScheduleAndGrid) {
  for (const simt::Options& options : simt::AllSchedules(9)) {
    if (!options.slow_tensor_core || !options.slow_copies) continue;  // there is neither
    ExpectRight(Coarse(2 * 2300, 10), 2, 2300, 16, {.options = options, .ctas = 2});
  }
  for (const int ctas : {1, 2, 5}) ExpectRight(Coarse(3 * 2300, 11), 3, 2300, 16, {.ctas = ctas});
}

}  // namespace
}  // namespace rondo::cuda
