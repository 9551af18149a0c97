#include "tests/kernels/attention/random_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rondo {
namespace {

template <typename T, size_t N>
T Pick(const T (&from)[N], std::mt19937& random) {
  return from[random() % N];
}

// Multiply-adds of one product; the portable kernel does a few hundred million a second.
constexpr int64_t kMaxWork = 150000;

}  // namespace

void SetRandomMask(Problem* problem, std::mt19937& random) {
  problem->mask.causal = random() % 3 != 0;
  constexpr int64_t kWindows[] = {0, 0, 0, 1, 2, 7, 30, 255, 256, 257, int64_t{1} << 62};
  problem->mask.window = Pick(kWindows, random);
  if (random() % 5 < 3) return;
  std::vector<int64_t> starts = {0, problem->tokens};
  constexpr int64_t kEdges[] = {kBlockTokens - 1, kBlockTokens, kBlockTokens + 1, 2 * kBlockTokens};
  const size_t cuts = random() % 9;
  for (size_t i = 0; i < cuts; ++i) {
    int64_t cut = random() % 2 ? Pick(kEdges, random) : static_cast<int64_t>(random() % (problem->tokens + 1));
    if (random() % 4 == 0) cut = starts[random() % starts.size()];  // an empty sequence
    starts.push_back(std::min(cut, problem->tokens));
  }
  std::sort(starts.begin(), starts.end());
  problem->SetSequences(starts);
}

void SetRandomScore(Problem* problem, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(0, 1);
  const int heads = problem->shape.q_heads;
  if (random() % 2) problem->shape.score.softcap = 1 + 49 * uniform(random);
  if (random() % 2) {
    std::vector<float> slopes;
    for (int h = 0; h < heads; ++h) slopes.push_back(std::exp2(-8 * uniform(random)));
    if (random() % 4 == 0) slopes[0] = 0;
    problem->SetSlopes(slopes);
  }
  if (random() % 2) {
    constexpr float kSinks[] = {-1e4f, -30, -1, -0.0f, 0.5f, 3, 30, 1e4f};
    std::vector<float> sinks;
    for (int h = 0; h < heads; ++h) sinks.push_back(Pick(kSinks, random));
    problem->SetSinks(sinks);
  }
}

Problem RandomConfiguration(uint32_t seed) {
  std::mt19937 random(seed);
  constexpr std::pair<int, int> kHeads[] = {{1, 1}, {4, 1}, {6, 2}, {3, 3}, {5, 1}, {2, 1}, {9, 3}};
  constexpr int kDims[] = {1, 2, 7, 8, 16, 40, 63, 64, 80, 96, 128, 200, 256};
  Problem p;
  std::tie(p.shape.q_heads, p.shape.kv_heads) = Pick(kHeads, random);
  p.shape.head_dim = Pick(kDims, random);
  p.shape.kv_type = random() % 2 ? KvType::kBf16 : KvType::kF32;
  // Some scores large enough to reach the soft cap.
  p.shape.scale = (random() % 3 == 0 ? 8.0f : 1.0f) / std::sqrt(static_cast<float>(p.shape.head_dim));
  constexpr int64_t kLengths[] = {20, 60, 258, 300, 514, 600};
  p.tokens = 1 + static_cast<int64_t>(random() % Pick(kLengths, random));
  SetRandomMask(&p, random);
  SetRandomScore(&p, random);
  p.count = random() % 2 ? 1 + static_cast<int64_t>(random() % 7) : 8 + static_cast<int64_t>(random() % 25);
  p.count = std::clamp<int64_t>(kMaxWork / (p.tokens * p.shape.q_heads * p.shape.head_dim), 1, p.count);
  p.first_position = static_cast<int64_t>(random() % (p.tokens + 16)) - 8;
  if (random() % 4 == 0) p.first_position = p.tokens - p.count;
  FillRandom(&p, Values::kOrdinary, &random);
  const size_t row = p.shape.kv_heads * p.shape.head_dim;
  for (int64_t key = 0; key < p.tokens; ++key) {
    bool seen = false;
    for (int64_t i = 0; i < p.count; ++i) seen |= p.Sees(p.first_position + i, key);
    if (seen) continue;
    std::fill_n(p.k.begin() + key * row, row, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(p.v.begin() + key * row, row, std::numeric_limits<float>::quiet_NaN());
  }
  return p;
}

}  // namespace rondo
