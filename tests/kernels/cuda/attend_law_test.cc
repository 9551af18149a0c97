// The law, for the prefill kernel: a row's bits do not depend on how its keys are shared out, on the rows beside it, on
// the size of tiles or the number of CTAs, or on where its keys lie.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/kernels/cuda/fold.h"
#include "tests/kernels/cuda/same_bits.h"

namespace rondo::cuda {
namespace {

constexpr int64_t kLength = 9 * kTestBlock + 37;  // a ragged end; a tree of five levels

Problem LongProblem() {
  return {.q_heads = 2, .kv_heads = 1, .rows = 66, .first_position = kLength - 66, .tokens = kLength, .amplitude = 3};
}

std::vector<float> Rows(const std::vector<float>& all, int64_t begin, int64_t end, int64_t row) {
  return {all.begin() + begin * row, all.begin() + end * row};
}

TEST(AttendLaw, AnyNumberOfShardsGivesTheSameBits) {
  for (const int64_t window : {0, 300}) {
    Problem problem = LongProblem();
    problem.window = window;
    const Tensors tensors(problem, 1);
    const Finished whole = AttendFinished(problem, tensors, {});
    ASSERT_EQ(whole.report.fault, "");
    const int64_t blocks = AllBlocks(problem).size();
    for (const int64_t shards : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE(std::to_string(shards) + " shards, window " + std::to_string(window));
      std::vector<Node> all;
      for (int64_t s = 0; s < shards; ++s) {
        const HowToRun run = {.ctas = static_cast<int>(s) % 3 + 1,
                              .blocks = {s * blocks / shards, (s + 1) * blocks / shards}};
        Nodes part = AttendNodes(problem, tensors, run);
        ASSERT_EQ(part.report.fault, "");
        for (Node& node : part.nodes) all.push_back(std::move(node));
      }
      const Finished folded = Finish(problem.head_dim, FoldToRoot(problem.head_dim, std::move(all)));
      EXPECT_TRUE(SameBits(folded.out, whole.out));
      EXPECT_TRUE(SameBits(folded.lse, whole.lse));
    }
  }
}

TEST(AttendLaw, RowsDoNotKnowTheirNeighbours) {
  const Problem problem = LongProblem();
  const Tensors tensors(problem, 2);
  const Finished whole = AttendFinished(problem, tensors, {});
  const int64_t row = int64_t{problem.q_heads} * problem.head_dim;
  // Chunks as of a chunked prefill, and single rows as of a decode.
  for (const auto& [begin, end] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 5}, {5, 40}, {40, 66}, {0, 1}, {33, 34}, {65, 66}}) {
    SCOPED_TRACE("rows " + std::to_string(begin) + " to " + std::to_string(end));
    const Finished part = AttendFinished(problem, tensors, {.row_begin = begin, .row_end = end});
    ASSERT_EQ(part.report.fault, "");
    EXPECT_TRUE(SameBits(part.out, Rows(whole.out, begin, end, row)));
    EXPECT_TRUE(SameBits(part.lse, Rows(whole.lse, begin, end, problem.q_heads)));
  }
}

TEST(AttendLaw, TilesCtasAndLayoutLeaveNoTrace) {
  const Problem problem = LongProblem();
  const Tensors tensors(problem, 3);
  const Finished whole = AttendFinished(problem, tensors, {});
  for (const HowToRun& run :
       {HowToRun{.ctas = 1}, HowToRun{.ctas = 7}, HowToRun{.warp_tiles = 2}, HowToRun{.layout = Layout::kPages}}) {
    const Finished other = AttendFinished(problem, tensors, run);
    ASSERT_EQ(other.report.fault, "");
    EXPECT_TRUE(SameBits(other.out, whole.out));
    EXPECT_TRUE(SameBits(other.lse, whole.lse));
  }
}

// A value that is not finite, at a key that some rows of a tile see and others do not, reaches the former alone.
TEST(AttendLaw, ValuesThatAreNotFiniteStayWithTheRowsThatSeeThem) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Problem problem{.rows = 70, .first_position = 130, .tokens = 200, .amplitude = 2};
    const Tensors clean(problem, 4);
    Tensors spoilt = clean;
    constexpr int64_t kKey = 160;  // seen by rows 30 and up
    constexpr int kColumn = 5;
    spoilt.v[kKey * problem.head_dim + kColumn] = FromFloat(problem.type, bad);
    const Finished good = AttendFinished(problem, clean, {});
    const Finished got = AttendFinished(problem, spoilt, {});
    ASSERT_EQ(got.report.fault, "");
    const int64_t unseen = kKey - problem.first_position;
    EXPECT_TRUE(SameBits(Rows(got.out, 0, unseen, problem.head_dim), Rows(good.out, 0, unseen, problem.head_dim)));
    for (int64_t row = unseen; row < problem.rows; ++row) {
      for (int d = 0; d < problem.head_dim; ++d) {
        EXPECT_EQ(std::isfinite(got.out[row * problem.head_dim + d]), d != kColumn) << row << " " << d;
      }
      // And with the bits it has alone.
      const Finished alone = AttendFinished(problem, spoilt, {.row_begin = row, .row_end = row + 1});
      EXPECT_TRUE(SameBits(alone.out, Rows(got.out, row, row + 1, problem.head_dim)));
      if (row == unseen + 2) row = problem.rows - 3;  // a few at both ends
    }
  }
}

}  // namespace
}  // namespace rondo::cuda
