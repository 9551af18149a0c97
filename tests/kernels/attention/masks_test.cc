// Every mask and score transform: random configurations against the textbook in double, and every kernel against
// portable bit for bit. RONDO_TEST_CONFIGS=N runs N of them instead of 2,000.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "tests/kernels/attention/random_problem.h"

namespace rondo {
namespace {

uint32_t Configurations() {
  const char* set = std::getenv("RONDO_TEST_CONFIGS");
  return set == nullptr ? 2000 : static_cast<uint32_t>(std::strtoul(set, nullptr, 10));
}

// In f32 a score is right to about 2^-22 of its terms, which moves its weight by as much; in bf16 q and k are rounded
// to 8 bits, and p too.
double Tolerance(const Problem& p, const Exact& exact) {
  const double terms = std::sqrt(static_cast<double>(p.shape.head_dim)) * p.shape.scale;
  if (p.shape.kv_type == KvType::kF32) return 4e-6 * std::max(1.0, terms) + 5e-7 * exact.largest_score;
  return 2e-2 + 8e-3 * exact.largest_score;
}

void ExpectNear(const Problem& p, const Answer& got, const Exact& want) {
  const double tolerance = Tolerance(p, want);
  for (size_t i = 0; i < got.out.size(); ++i) {
    ASSERT_NEAR(got.out[i], want.out[i], tolerance * (1 + std::abs(want.out[i]))) << i << ", " << p.Describe();
  }
  for (size_t i = 0; i < got.lse.size(); ++i) {
    if (std::isinf(want.lse[i])) {
      ASSERT_EQ(got.lse[i], want.lse[i]) << i << ", " << p.Describe();
    } else {
      ASSERT_NEAR(got.lse[i], want.lse[i], tolerance * (1 + std::abs(want.lse[i]))) << i << ", " << p.Describe();
    }
  }
}

TEST(MasksTest, RandomConfigurations) {
  ThreadPool one(1), three(3);
  const std::vector<const AttentionKernels*>& kernels = TestedKernels();
  for (uint32_t seed = 0; seed < Configurations(); ++seed) {
    const Problem p = RandomConfiguration(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << p.Describe());
    const Blocks blocks(p);
    const Answer want = Solve(*kernels.front(), p, 0, p.count, blocks, one);
    Nodes want_nodes = AttendRun(*kernels.front(), p, 0, p.count, blocks.all(), one);
    const Exact exact = Oracle(p);
    ASSERT_NO_FATAL_FAILURE(ExpectNear(p, want, exact));
    for (size_t i = 1; i < kernels.size(); ++i) {
      const AttentionKernels& kernel = *kernels[i];
      if (kernel.name() == "ref") {
        if (seed % 4 != 0) continue;
        ASSERT_NO_FATAL_FAILURE(ExpectNear(p, Solve(kernel, p, 0, p.count, blocks, one), exact));
        continue;
      }
      ThreadPool& pool = seed % 8 == 0 ? three : one;
      ASSERT_TRUE(SameBits(want_nodes.Bits(), AttendRun(kernel, p, 0, p.count, blocks.all(), pool).Bits()))
          << kernel.name();
      const Answer got = Solve(kernel, p, 0, p.count, blocks, pool);
      ASSERT_TRUE(SameBits(want.out, got.out)) << kernel.name();
      ASSERT_TRUE(SameBits(want.lse, got.lse)) << kernel.name();
      // The same rows a few at a time: the other way through the kernel.
      const int64_t width = 1 + seed % 7;
      Answer parts;
      for (int64_t row = 0; row < p.count; row += width) {
        const Answer part = Solve(kernel, p, row, std::min(p.count, row + width), blocks, pool);
        parts.out.insert(parts.out.end(), part.out.begin(), part.out.end());
        parts.lse.insert(parts.lse.end(), part.lse.begin(), part.lse.end());
      }
      ASSERT_TRUE(SameBits(want.out, parts.out)) << kernel.name() << ", rows by " << width;
      ASSERT_TRUE(SameBits(want.lse, parts.lse)) << kernel.name() << ", rows by " << width;
    }
  }
}

// NaN, infinities and huge numbers, in keys, queries and sinks, come out alike everywhere.
TEST(MasksTest, NotFiniteNumbersHaveOneAnswer) {
  ThreadPool pool(1);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr Values kValues[] = {Values::kNotFinite, Values::kHugeScores, Values::kDenormals, Values::kSignedZeros};
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Problem p = RandomConfiguration(100000 + seed);
    std::mt19937 random(seed);
    FillRandom(&p, kValues[seed % 4], &random);
    if (p.sinks != nullptr) {
      std::vector<float> sinks = *p.sinks;
      for (float& sink : sinks) {
        const float odd[] = {kInf, -kInf, std::nanf(""), 1e30f, -1e30f, 1e-40f, 7.0f};
        sink = odd[random() % 7];
      }
      p.SetSinks(sinks);
    }
    const Blocks blocks(p);
    const Answer want = Solve(*TestedKernels().front(), p, 0, p.count, blocks, pool);
    for (const AttentionKernels* kernel : TestedKernels()) {
      if (kernel->name() == "ref") continue;
      ASSERT_TRUE(SameBits(want.out, Solve(*kernel, p, 0, p.count, blocks, pool).out))
          << kernel->name() << ", seed " << seed << ": " << p.Describe();
      const Answer first = Solve(*kernel, p, 0, 1, blocks, pool);
      ASSERT_TRUE(SameBits({want.out.begin(), want.out.begin() + first.out.size()}, first.out))
          << kernel->name() << ", seed " << seed << ": " << p.Describe();
    }
  }
}

class TransformTest : public testing::TestWithParam<const AttentionKernels*> {
 protected:
  // With one key the logarithm of the sum is its score.
  static Problem OneKey(int64_t count, float score) {
    Problem p;
    p.shape = {1, 1, 1, KvType::kF32, 1.0f};
    p.mask = {.causal = false};
    p.tokens = 1;
    p.count = count;
    p.q.assign(count, score);
    p.k = {1.0f};
    p.v = {1.0f};
    return p;
  }
  ThreadPool pool_{1};
};

TEST_P(TransformTest, SoftCapIsTanh) {
  for (const float cap : {1.0f, 20.0f, 50.0f, 1e6f}) {
    for (const int64_t count : {1, 9}) {
      for (double s = 1e-3; s < 1e4; s *= 1.3) {
        for (const double score : {s, -s}) {
          Problem p = OneKey(count, static_cast<float>(score));
          p.shape.score.softcap = cap;
          const Answer got = Solve(*GetParam(), p, 0, count, Blocks(p), pool_);
          const double want = cap * std::tanh(double{p.q[0]} / cap);
          // 4e-6 is the exponential's own; scores far below the cap keep their precision.
          ASSERT_NEAR(got.lse.back(), want, 4e-6 + 1e-6 * std::abs(want)) << score << " capped at " << cap;
        }
      }
    }
  }
}

TEST_P(TransformTest, SoftCapOfInfinityIsTheCap) {
  Problem p = OneKey(1, std::numeric_limits<float>::infinity());
  p.shape.score.softcap = 30;
  EXPECT_FLOAT_EQ(Solve(*GetParam(), p, 0, 1, Blocks(p), pool_).lse[0], 30.0f);
}

// The query at 2 sees keys at 0, 1, 2 with scores 0 - 2 slope, 0 - slope, 0; not causal, also 3 and 4.
TEST_P(TransformTest, AlibiByHand) {
  for (const bool causal : {true, false}) {
    Problem p = OneKey(1, 0.0f);
    p.mask.causal = causal;
    p.first_position = 2;
    p.tokens = 5;
    p.k.assign(5, 0.0f);
    p.v = {1, 2, 3, 4, 5};
    p.SetSlopes({0.5f});
    const double a = std::exp(-1.0), b = std::exp(-0.5);
    const double sum = causal ? a + b + 1 : 2 * a + 2 * b + 1;
    const double out = (causal ? a + 2 * b + 3 : a + 2 * b + 3 + 4 * b + 5 * a) / sum;
    const Answer got = Solve(*GetParam(), p, 0, 1, Blocks(p), pool_);
    EXPECT_NEAR(got.out[0], out, 1e-6);
    EXPECT_NEAR(got.lse[0], std::log(sum), 1e-6);
  }
}

TEST_P(TransformTest, SinkTakesItsShareAndCarriesNothing) {
  for (const int64_t count : {1, 9}) {
    Problem p = OneKey(count, 0.0f);
    p.SetSinks({std::log(3.0f)});
    Answer got = Solve(*GetParam(), p, 0, count, Blocks(p), pool_);
    EXPECT_NEAR(got.out.back(), 0.25, 1e-6);  // e^0 of e^0 + 3
    EXPECT_NEAR(got.lse.back(), std::log(4.0), 1e-6);
    p.first_position = -20;  // sees no key
    p.mask.causal = true;
    got = Solve(*GetParam(), p, 0, count, Blocks(p), pool_);
    EXPECT_EQ(got.out.back(), 0.0f);
    EXPECT_EQ(got.lse.back(), (*p.sinks)[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, TransformTest, testing::ValuesIn(TestedKernels()),
                         [](const auto& info) { return std::string(info.param->name()); });

}  // namespace
}  // namespace rondo
