// Every kernel against the textbook in double, and against cases that have broken other engines.
#include <sys/mman.h>

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "kernels/fold_nodes.h"
#include "tests/kernels/attention/problem.h"

namespace rondo {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class OracleTest : public testing::TestWithParam<const AttentionKernels*> {
 protected:
  static Problem Make(int q_heads, int kv_heads, int head_dim, KvType type, int64_t tokens, int64_t first,
                      int64_t count, MaskSpec mask, uint32_t seed = 1) {
    Problem p;
    p.shape = {q_heads, kv_heads, head_dim, type, 1.0f / std::sqrt(static_cast<float>(head_dim))};
    p.mask = mask;
    p.tokens = tokens;
    p.first_position = first;
    p.count = count;
    std::mt19937 random(seed);
    FillRandom(&p, Values::kOrdinary, &random);
    return p;
  }

  Answer SolveAll(const Problem& p) { return Solve(*GetParam(), p, 0, p.count, Blocks(p), pool_); }

  // f32: the sum of a few hundred products of unit normals. bf16: q and p are rounded to 8 bits, which moves a score
  // by about 2^-9 of its terms and an output by as much.
  void ExpectOracle(const Problem& p) {
    const Answer got = SolveAll(p);
    const Exact want = Oracle(p);
    const bool bf16 = p.shape.kv_type == KvType::kBf16;
    const double tolerance = bf16 ? 2e-2 : 4e-6;
    for (size_t i = 0; i < got.out.size(); ++i) {
      ASSERT_NEAR(got.out[i], want.out[i], tolerance * (1 + std::abs(want.out[i]))) << i << ", " << p.Describe();
    }
    for (size_t i = 0; i < got.lse.size(); ++i) {
      if (std::isinf(want.lse[i])) {
        ASSERT_EQ(got.lse[i], -kInf) << i << ", " << p.Describe();
      } else {
        ASSERT_NEAR(got.lse[i], want.lse[i], tolerance * (1 + std::abs(want.lse[i]))) << i << ", " << p.Describe();
      }
    }
  }

  ThreadPool pool_{1};
};

TEST_P(OracleTest, HeadSizesLengthsAndGroups) {
  constexpr int64_t kLengths[] = {0, 1, 31, 32, 33, 63, 64, 65, 127, 129, 256, 257, 300, 513};
  constexpr std::pair<int, int> kHeads[] = {{9, 3}, {4, 1}, {8, 8}};
  int turn = 0;
  for (const int head_dim : {1, 8, 63, 64, 72, 80, 96, 128, 256}) {
    for (const int64_t length : kLengths) {
      const auto [q_heads, kv_heads] = kHeads[turn % 3];
      const KvType type = turn % 2 ? KvType::kBf16 : KvType::kF32;
      ++turn;
      const int64_t count = std::min<int64_t>(length, turn % 3 == 0 ? 3 : 21);
      ExpectOracle(Make(q_heads, kv_heads, head_dim, type, length, length - count, count, {turn % 5 != 0, 0}));
    }
  }
}

TEST_P(OracleTest, EveryShortLengthCausalAndFull) {
  for (int64_t n = 1; n <= 40; ++n) {
    for (const bool causal : {true, false}) ExpectOracle(Make(2, 1, 16, KvType::kF32, n, 0, n, {causal, 0}));
  }
}

TEST_P(OracleTest, FewerQueriesThanKeysAlignAtTheEnd) {
  ExpectOracle(Make(2, 1, 8, KvType::kF32, 5, 4, 1, {}));  // sees all five
  for (const int64_t extra : {0, 8}) {                     // few rows and many: both ways through the kernel
    const Problem p = Make(2, 1, 8, KvType::kF32, 2, -3 - extra, 5 + extra, {});
    const Answer got = SolveAll(p);
    for (int64_t i = 0; i < (3 + extra) * 2; ++i) {
      EXPECT_EQ(got.lse[i], -kInf);
      for (int d = 0; d < 8; ++d) EXPECT_EQ(got.out[i * 8 + d], 0.0f);
    }
    EXPECT_GT(got.lse[(3 + extra) * 2], -kInf);
    ExpectOracle(p);
  }
  ExpectOracle(Make(2, 1, 8, KvType::kF32, 5, 5, 0, {}));
}

// Value row j is the j-th unit vector: the output tells which keys were seen.
TEST_P(OracleTest, WindowOfFourSeesExactlyFourKeys) {
  for (const int64_t position : {int64_t{10}, kBlockTokens + 2, kBlockTokens + 3, kBlockTokens + 4, 2 * kBlockTokens}) {
    for (const int64_t count : {1, 12}) {
      Problem p = Make(1, 1, 16, KvType::kF32, position + 1, position + 1 - count, count, {true, 4});
      for (int64_t key = 0; key < p.tokens; ++key) {
        for (int d = 0; d < 16; ++d) p.v[key * 16 + d] = d == key % 16 ? 1.0f : 0.0f;
      }
      const Answer got = SolveAll(p);
      for (int64_t row = 0; row < count; ++row) {
        const int64_t at = p.first_position + row;
        for (int d = 0; d < 16; ++d) {
          bool seen = false;
          for (int64_t key = std::max<int64_t>(0, at - 3); key <= at; ++key) seen |= key % 16 == d;
          EXPECT_EQ(got.out[row * 16 + d] > 0, seen) << "query " << at << ", key " << d << " mod 16";
        }
      }
      ExpectOracle(p);
    }
  }
}

TEST_P(OracleTest, MergingEmptyPartials) {
  AttentionShape shape{1, 1, 1, KvType::kF32, 1};
  const auto merge = [&](float lo, float lm, float ll, float ro, float rm, float rl) {
    PartialNode left{{0, 0}, &lo, &lm, &ll}, right{{0, 1}, &ro, &rm, &rl};
    GetParam()->Merge(shape, 1, left, right, pool_);
    return std::vector<float>{lo, lm, ll};
  };
  EXPECT_TRUE(SameBits(merge(0, kEmptyMax, 0, 0, kEmptyMax, 0), {0, kEmptyMax, 0}));
  for (const float o : {5.0f, -0.0f, kInf}) {
    EXPECT_TRUE(SameBits(merge(0, kEmptyMax, 0, o, 1, 2.5f), {o, 1, 2.5f}));
    EXPECT_TRUE(SameBits(merge(o, 1, 2.5f, 0, kEmptyMax, 0), {o, 1, 2.5f}));
    EXPECT_TRUE(SameBits(merge(3, 50, 0, o, -9, 2.5f), {o, -9, 2.5f}));  // l == 0 decides, whatever m says
  }
  EXPECT_TRUE(SameBits(merge(3, 4, 1, 5, 6, 1), {3 * 0.25f + 5, 6, 1.25f}));
  EXPECT_TRUE(SameBits(merge(3, 6, 1, 5, 4, 1), {3 + 5 * 0.25f, 6, 1.25f}));
  EXPECT_TRUE(SameBits(merge(3, 200, 1, 5, 4, 1), {3, 200, 1}));
  float o = 7, m = kEmptyMax, l = 0, out = 9, lse = 9;
  GetParam()->Finish(shape, 1, {{0, 0}, &o, &m, &l}, &out, &lse, pool_);
  EXPECT_TRUE(SameBits({out, lse}, {0.0f, -kInf}));
}

// Two shards with sums 2 and 8 and outputs 0 and 10 are 8 together.
TEST_P(OracleTest, LseIsNaturalLog) {
  AttentionShape shape{1, 1, 1, KvType::kF32, 1};
  float o[2] = {0, 80}, m[2] = {0, 0}, l[2] = {2, 8}, out = 0, lse = 0;
  PartialNode left{{0, 0}, &o[0], &m[0], &l[0]}, right{{0, 1}, &o[1], &m[1], &l[1]};
  GetParam()->Merge(shape, 1, left, right, pool_);
  GetParam()->Finish(shape, 1, left, &out, &lse, pool_);
  EXPECT_FLOAT_EQ(out, 8.0f);
  EXPECT_FLOAT_EQ(lse, std::log(10.0f));
  m[0] = 3;  // sums of 2^(s - 3): log(10 * 8)
  GetParam()->Finish(shape, 1, left, &out, &lse, pool_);
  EXPECT_FLOAT_EQ(lse, std::log(80.0f));
}

// With bf16 keys the partials stay float: the error is one owner's however many owners there are.
TEST_P(OracleTest, ErrorDoesNotGrowWithOwners) {
  const Problem p = Make(2, 1, 64, KvType::kBf16, 4096, 4093, 3, {});
  const Blocks blocks(p);
  const Exact want = Oracle(p);
  double one_owner = 0;
  for (const int owners : {1, 2, 4, 8, 16}) {
    std::vector<Nodes> parts;
    for (int i = 0; i < owners; ++i) {
      parts.push_back(AttendRun(*GetParam(), p, 0, 3, blocks.run(16 * i / owners, 16 * (i + 1) / owners), pool_));
    }
    std::vector<PartialNode> nodes;
    for (Nodes& part : parts) nodes.insert(nodes.end(), part.nodes().begin(), part.nodes().end());
    const PartialNode root = FoldNodes(*GetParam(), p.shape, 3, absl::MakeSpan(nodes), pool_);
    std::vector<float> out(want.out.size());
    GetParam()->Finish(p.shape, 3, root, out.data(), nullptr, pool_);
    double error = 0;
    for (size_t i = 0; i < out.size(); ++i) error = std::max(error, std::abs(out[i] - want.out[i]));
    EXPECT_LT(error, 1e-3);
    if (owners == 1) one_owner = error;
    EXPECT_NEAR(error, one_owner, GetParam()->name() == "ref" ? 1e-8 : 0.0) << owners << " owners";
  }
}

TEST_P(OracleTest, ValuesNobodyMaySeeMayBeAnything) {
  for (const KvType type : {KvType::kF32, KvType::kBf16}) {
    for (const int64_t count : {1, 5, 40}) {
      for (const int64_t window : {0, 37}) {
        const int64_t tokens = 300, first = 200;
        Problem p = Make(4, 2, 24, type, tokens, first, count, {true, window}, 3);
        const Exact want = Oracle(p);
        for (int64_t key = 0; key < tokens; ++key) {
          const bool unseen = key >= first + count || (window > 0 && key <= first - window);
          for (int i = 0; unseen && i < 48; ++i) p.v[key * 48 + i] = i % 2 ? kInf : std::nanf("");
        }
        const Answer got = SolveAll(p);
        for (size_t i = 0; i < got.out.size(); ++i) ASSERT_NEAR(got.out[i], want.out[i], 2e-2) << p.Describe();
      }
    }
  }
}

// Row r may not see key r + 1, even where row r + 1 of the same tile does: infinity there stays out of row r.
TEST_P(OracleTest, InfinityStaysBehindTheDiagonal) {
  for (const KvType type : {KvType::kF32, KvType::kBf16}) {
    Problem p = Make(1, 1, 8, type, 40, 0, 40, {}, 4);
    const Exact want = Oracle(p);
    for (int d = 0; d < 8; ++d) p.v[21 * 8 + d] = kInf;
    const Answer got = SolveAll(p);
    for (int64_t i = 0; i < 21 * 8; ++i) ASSERT_NEAR(got.out[i], want.out[i], 2e-2) << i;
    for (int64_t i = 21 * 8; i < 40 * 8; ++i) ASSERT_FALSE(std::isfinite(got.out[i])) << i;
  }
}

TEST_P(OracleTest, HugeScoresPickTheLargest) {
  for (const int64_t count : {1, 9}) {
    Problem p = Make(1, 1, 4, KvType::kF32, 10, 9, count, {});
    for (float& x : p.q) x = 1e3f;
    for (size_t i = 0; i < p.k.size(); ++i) p.k[i] = i / 4 == 6 ? 0.5f : -1e30f;
    const Answer got = SolveAll(p);
    for (int64_t row = 0; row < count; ++row) {
      for (int d = 0; d < 4; ++d) EXPECT_FLOAT_EQ(got.out[row * 4 + d], p.v[6 * 4 + d]);
    }
  }
}

// Positions around 2^40 (a run that starts at block 2^32), and 4 GiB between two blocks.
TEST_P(OracleTest, OffsetsAre64Bit) {
  Problem p = Make(2, 1, 16, KvType::kF32, 300, 290, 10, {true, 100});
  const Answer want = SolveAll(p);
  const Blocks blocks(p);
  constexpr size_t kFar = size_t{1} << 33;
  void* memory = mmap(nullptr, 2 * kFar, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  constexpr int64_t kShift = int64_t{1} << 32;
  std::vector<KvBlock> far(blocks.all().begin(), blocks.all().end());
  for (size_t i = 0; i < far.size(); ++i) {
    std::byte* to = static_cast<std::byte*>(memory) + i * kFar;
    std::copy_n(far[i].data, KvBlockBytes(p.shape), to);
    far[i].data = to;
    far[i].index += kShift;
  }
  p.first_position += kShift * kBlockTokens;
  Nodes nodes = AttendRun(*GetParam(), p, 0, 10, far, pool_);
  const PartialNode root = FoldNodes(*GetParam(), p.shape, 10, nodes.nodes(), pool_);
  std::vector<float> out(want.out.size());
  GetParam()->Finish(p.shape, 10, root, out.data(), nullptr, pool_);
  EXPECT_TRUE(SameBits(want.out, out));
  munmap(memory, 2 * kFar);
}

INSTANTIATE_TEST_SUITE_P(Kernels, OracleTest, testing::ValuesIn(TestedKernels()),
                         [](const auto& info) { return std::string(info.param->name()); });

}  // namespace
}  // namespace rondo
