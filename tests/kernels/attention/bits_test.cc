// Every kernel of the CPU family against portable, bit for bit: random problems, cut into tiles, owners and threads.
#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/fold_nodes.h"
#include "tests/kernels/attention/problem.h"

namespace rondo {
namespace {

template <typename T, size_t N>
T Pick(const T (&from)[N], std::mt19937& random) {
  return from[random() % N];
}

Problem RandomProblem(std::mt19937& random, Values values, int64_t max_tokens) {
  constexpr std::pair<int, int> kHeads[] = {{1, 1}, {4, 1}, {9, 3}, {8, 8}, {6, 2}, {5, 1}, {2, 1}, {32, 1}};
  constexpr int kDims[] = {1, 2, 3, 7, 8, 9, 16, 31, 48, 63, 64, 65, 72, 80, 96, 100, 128, 200, 256};
  Problem p;
  std::tie(p.shape.q_heads, p.shape.kv_heads) = Pick(kHeads, random);
  p.shape.head_dim = Pick(kDims, random);
  p.shape.kv_type = random() % 2 ? KvType::kBf16 : KvType::kF32;
  p.shape.scale = 1.0f / std::sqrt(static_cast<float>(p.shape.head_dim));
  p.tokens = 1 + static_cast<int64_t>(random() % max_tokens);
  p.count = random() % 2 ? 1 + static_cast<int64_t>(random() % 7) : 8 + static_cast<int64_t>(random() % 25);
  p.first_position = static_cast<int64_t>(random() % (p.tokens + 20)) - 10;
  if (random() % 4 == 0) p.first_position = p.tokens - p.count;
  p.mask.causal = random() % 4 != 0;
  constexpr int64_t kWindows[] = {0, 0, 0, 1, 4, 100, 256, 300, int64_t{1} << 62};
  p.mask.window = Pick(kWindows, random);
  FillRandom(&p, values, &random);
  return p;
}

class BitsTest : public testing::TestWithParam<const AttentionKernels*> {};

TEST_P(BitsTest, EqualsPortableOnRandomProblems) {
  ThreadPool pool(1);
  constexpr Values kAll[] = {Values::kOrdinary, Values::kSignedZeros, Values::kDenormals, Values::kHugeScores,
                             Values::kNotFinite};
  for (int seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const Problem p = RandomProblem(random, kAll[seed % 5], seed % 10 == 0 ? 1500 : 400);
    const Blocks blocks(p);
    Nodes want = AttendRun(*TestedKernels().front(), p, 0, p.count, blocks.all(), pool);
    Nodes got = AttendRun(*GetParam(), p, 0, p.count, blocks.all(), pool);
    ASSERT_TRUE(SameBits(want.Bits(), got.Bits())) << "nodes, seed " << seed << ": " << p.Describe();
    const Answer a = Solve(*TestedKernels().front(), p, 0, p.count, blocks, pool);
    const Answer b = Solve(*GetParam(), p, 0, p.count, blocks, pool);
    ASSERT_TRUE(SameBits(a.out, b.out)) << "out, seed " << seed << ": " << p.Describe();
    ASSERT_TRUE(SameBits(a.lse, b.lse)) << "lse, seed " << seed << ": " << p.Describe();
  }
}

// A row alone (decode), rows in tiles that start elsewhere, all rows at once.
TEST_P(BitsTest, RowsDoNotKnowTheirTile) {
  ThreadPool pool(1);
  for (int seed = 1000; seed < 1016; ++seed) {
    std::mt19937 random(seed);
    Problem p = RandomProblem(random, seed % 4 == 0 ? Values::kNotFinite : Values::kOrdinary, 700);
    p.count = 61;
    p.first_position = std::max<int64_t>(-3, p.tokens - p.count);
    FillRandom(&p, seed % 4 == 0 ? Values::kNotFinite : Values::kOrdinary, &random);
    const Blocks blocks(p);
    const Answer whole = Solve(*GetParam(), p, 0, p.count, blocks, pool);
    for (const int64_t width : {1, 5, 8, 13, 29}) {
      std::vector<float> out;
      for (int64_t begin = 0; begin < p.count; begin += width) {
        const Answer part = Solve(*GetParam(), p, begin, std::min(p.count, begin + width), blocks, pool);
        out.insert(out.end(), part.out.begin(), part.out.end());
      }
      ASSERT_TRUE(SameBits(whole.out, out)) << "rows by " << width << ", seed " << seed << ": " << p.Describe();
    }
  }
}

TEST_P(BitsTest, OwnersAndOrderOfMergingDoNotMatter) {
  ThreadPool pool(1);
  for (int seed = 2000; seed < 2010; ++seed) {
    std::mt19937 random(seed);
    Problem p = RandomProblem(random, Values::kOrdinary, 600);
    p.tokens = 2000 + static_cast<int64_t>(random() % 900);
    p.shape.head_dim = std::min(p.shape.head_dim, 80);
    p.count = seed % 2 ? 3 : 17;
    p.first_position = p.tokens - p.count;
    FillRandom(&p, Values::kOrdinary, &random);
    const Blocks blocks(p);
    const int64_t n = BlocksFor(p.tokens);
    const Answer whole = Solve(*GetParam(), p, 0, p.count, blocks, pool);
    for (int owners = 1; owners <= 8; ++owners) {
      std::vector<int64_t> cuts = {0, n};
      while (static_cast<int>(cuts.size()) < owners + 1) cuts.push_back(static_cast<int64_t>(random() % (n + 1)));
      std::sort(cuts.begin(), cuts.end());
      std::vector<int> order;
      for (int i = 0; i < owners; ++i) {
        if (cuts[i] < cuts[i + 1]) order.push_back(i);
      }
      std::shuffle(order.begin(), order.end(), random);
      // Owners attend in any order; the nodes are then joined wherever a pair of siblings is complete, in any order.
      std::vector<std::pair<int, Nodes>> parts;
      for (const int i : order) {
        parts.emplace_back(i, AttendRun(*GetParam(), p, 0, p.count, blocks.run(cuts[i], cuts[i + 1]), pool));
      }
      std::vector<PartialNode> nodes;
      for (auto& [i, part] : parts) nodes.insert(nodes.end(), part.nodes().begin(), part.nodes().end());
      for (bool merged = true; merged;) {
        merged = false;
        for (size_t a = 0; a < nodes.size() && !merged; ++a) {
          for (size_t b = 0; b < nodes.size() && !merged; ++b) {
            if (nodes[a].id.sibling() != nodes[b].id || nodes[a].id.index % 2 != 0) continue;
            GetParam()->Merge(p.shape, p.count, nodes[a], nodes[b], pool);
            nodes[a].id = nodes[a].id.parent();
            nodes.erase(nodes.begin() + b);
            merged = true;
          }
        }
      }
      std::sort(nodes.begin(), nodes.end(), [](auto& a, auto& b) { return a.id.begin() < b.id.begin(); });
      const PartialNode root = FoldNodes(*GetParam(), p.shape, p.count, absl::MakeSpan(nodes), pool);
      std::vector<float> out(whole.out.size());
      GetParam()->Finish(p.shape, p.count, root, out.data(), nullptr, pool);
      ASSERT_TRUE(SameBits(whole.out, out)) << owners << " owners, seed " << seed << ": " << p.Describe();
    }
  }
}

TEST_P(BitsTest, ThreadsDoNotMatter) {
  ThreadPool one(1), two(2), three(3);
  for (int seed = 3000; seed < 3010; ++seed) {
    std::mt19937 random(seed);
    Problem p = RandomProblem(random, Values::kOrdinary, 1200);
    if (seed % 2) p.count = 90;
    FillRandom(&p, Values::kOrdinary, &random);
    const Blocks blocks(p);
    const Answer want = Solve(*GetParam(), p, 0, p.count, blocks, one);
    for (ThreadPool* pool : {&two, &three}) {
      const Answer got = Solve(*GetParam(), p, 0, p.count, blocks, *pool);
      ASSERT_TRUE(SameBits(want.out, got.out)) << pool->threads() << " threads: " << p.Describe();
      ASSERT_TRUE(SameBits(want.lse, got.lse)) << pool->threads() << " threads: " << p.Describe();
    }
  }
}

// Whatever the caller's rounding and denormal mode, the answer is the same.
TEST_P(BitsTest, CallersFloatingPointModeDoesNotMatter) {
  ThreadPool pool(1);
  std::mt19937 random(7);
  for (const int64_t count : {2, 40}) {
    Problem p = RandomProblem(random, Values::kDenormals, 500);
    p.count = count;
    p.first_position = p.tokens - count;
    FillRandom(&p, Values::kDenormals, &random);
    const Blocks blocks(p);
    const Answer want = Solve(*GetParam(), p, 0, p.count, blocks, pool);
    const unsigned mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((mode & ~0x8040u) | 0x6000u);  // denormals kept, towards zero
    const Answer got = Solve(*GetParam(), p, 0, p.count, blocks, pool);
    __builtin_ia32_ldmxcsr(mode);
    ASSERT_TRUE(SameBits(want.out, got.out)) << p.Describe();
  }
}

std::vector<const AttentionKernels*> Family() {  // all but ref, whose bits are its own
  std::vector<const AttentionKernels*> family = TestedKernels();
  family.pop_back();
  return family;
}

INSTANTIATE_TEST_SUITE_P(Kernels, BitsTest, testing::ValuesIn(Family()),
                         [](const auto& info) { return std::string(info.param->name()); });

}  // namespace
}  // namespace rondo
