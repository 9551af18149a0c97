// The decode kernels: right by float64, and with the bits of the prefill kernel.
#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <vector>

#include "tests/kernels/cuda/emulated_decode.h"
#include "tests/kernels/cuda/fold.h"
#include "tests/kernels/cuda/same_bits.h"

namespace rondo::cuda {
namespace {

// Sequences of different lengths in one launch.
class Batch {
 public:
  Batch(Problem common, const std::vector<std::pair<int64_t, int64_t>>& tokens_and_rows) {
    for (const auto& [tokens, rows] : tokens_and_rows) {
      common.tokens = tokens;
      common.rows = rows;
      common.first_position = tokens - rows;
      problems_.push_back(common);
      tensors_.emplace_back(common, 20 + problems_.size());
      runs_.push_back(
          {&problems_.back(), &tensors_.back(), {.layout = runs_.size() % 2 == 0 ? Layout::kRows : Layout::kPages}});
    }
  }
  const std::vector<SequenceRun>& runs() const { return runs_; }

 private:
  std::deque<Problem> problems_;
  std::deque<Tensors> tensors_;
  std::vector<SequenceRun> runs_;
};

void ExpectRightAndLikePrefill(const Batch& batch, const simt::Options& options = {}) {
  const std::vector<Finished> got = DecodeFinished(batch.runs(), options);
  for (size_t i = 0; i < got.size(); ++i) {
    const SequenceRun& run = batch.runs()[i];
    SCOPED_TRACE(run.problem->Describe());
    ASSERT_EQ(got[i].report.fault, "");
    const Errors errors = Compare(PlainLoops(*run.problem, *run.tensors), got[i].out, got[i].lse);
    EXPECT_TRUE(Acceptable(run.problem->type, errors)) << "out " << errors.out << " lse " << errors.lse;
    const Finished prefill = AttendFinished(*run.problem, *run.tensors, {});
    EXPECT_TRUE(SameBits(got[i].out, prefill.out));
    EXPECT_TRUE(SameBits(got[i].lse, prefill.lse));
  }
}

TEST(Decode, EveryHeadSizeAndType) {
  for (const int head_dim : {64, 80, 96, 128, 256}) {
    ExpectRightAndLikePrefill(Batch({.head_dim = head_dim, .q_heads = 4, .kv_heads = 2, .amplitude = 2}, {{300, 1}}));
  }
  ExpectRightAndLikePrefill(Batch({.type = ElementType::kFp16, .q_heads = 2, .amplitude = 2}, {{300, 1}}));
}

TEST(Decode, SeveralSequencesInOneLaunch) {
  ExpectRightAndLikePrefill(
      Batch({.q_heads = 4, .kv_heads = 2}, {{1, 1}, {700, 1}, {0, 0}, {128, 1}, {129, 1}, {400, 3}}));
}

TEST(Decode, GroupsAndRowsBeyondOneTile) {
  ExpectRightAndLikePrefill(Batch({.q_heads = 16, .kv_heads = 1}, {{200, 1}, {200, 3}}));
  ExpectRightAndLikePrefill(Batch({.q_heads = 20, .kv_heads = 1}, {{200, 2}}));
  ExpectRightAndLikePrefill(Batch({.q_heads = 6, .kv_heads = 2}, {{200, 7}}));
}

TEST(Decode, EveryMaskAndScore) {
  ExpectRightAndLikePrefill(Batch({.q_heads = 2, .window = 100}, {{1000, 2}, {60, 1}}));
  ExpectRightAndLikePrefill(Batch({.q_heads = 2, .causal = false, .window = 40}, {{500, 2}}));
  ExpectRightAndLikePrefill(Batch({.q_heads = 2, .visible_begin = 70, .visible_end = 150}, {{300, 2}, {100, 1}}));
  ExpectRightAndLikePrefill(Batch({.q_heads = 3, .softcap = 5, .amplitude = 6}, {{300, 2}}));
  ExpectRightAndLikePrefill(Batch({.q_heads = 4, .kv_heads = 2, .alibi = true}, {{300, 2}}));
  ExpectRightAndLikePrefill(Batch({.q_heads = 3, .sinks = true}, {{300, 2}, {0, 1}}));
}

TEST(Decode, EverySchedule) {
  for (const simt::Options& options : simt::AllSchedules(4)) {
    const Batch batch({.q_heads = 2, .kv_heads = 1}, {{300, 2}});
    const std::vector<Finished> got = DecodeFinished(batch.runs(), options);
    ASSERT_EQ(got[0].report.fault, "");
    EXPECT_TRUE(SameBits(got[0].out, AttendFinished(*batch.runs()[0].problem, *batch.runs()[0].tensors, {}).out));
  }
}

TEST(Decode, NodesAreThoseOfThePrefillKernel) {
  const Problem problem{
      .q_heads = 4, .kv_heads = 2, .rows = 2, .first_position = 23 * kTestBlock - 20, .tokens = 23 * kTestBlock - 18};
  const Tensors tensors(problem, 6);
  for (const BlockRange blocks : {BlockRange{0, 23}, {1, 9}, {7, 8}, {5, 21}, {13, 13}, {16, 23}}) {
    SCOPED_TRACE(std::to_string(blocks.begin) + " to " + std::to_string(blocks.end));
    const HowToRun how{.blocks = blocks};
    const Nodes decode = DecodeNodes({{&problem, &tensors, how}}, {}).front();
    const Nodes prefill = AttendNodes(problem, tensors, how);
    ASSERT_EQ(decode.report.fault, "");
    ASSERT_EQ(decode.nodes.size(), prefill.nodes.size());
    for (size_t i = 0; i < decode.nodes.size(); ++i) {
      EXPECT_TRUE(SameBits(decode.nodes[i].o, prefill.nodes[i].o));
      EXPECT_TRUE(SameBits(decode.nodes[i].m, prefill.nodes[i].m));
      EXPECT_TRUE(SameBits(decode.nodes[i].l, prefill.nodes[i].l));
    }
  }
}

TEST(Decode, ValuesThatAreNotFiniteStayWithTheRowsThatSeeThem) {
  const Problem problem{.q_heads = 2, .kv_heads = 1, .rows = 3, .first_position = 100, .tokens = 103};
  Tensors tensors(problem, 8);
  tensors.v[102 * problem.head_dim] = FromFloat(problem.type, std::numeric_limits<float>::infinity());
  const Finished decode = DecodeFinished({{&problem, &tensors, {}}}, {}).front();
  ASSERT_EQ(decode.report.fault, "");
  const size_t row = static_cast<size_t>(problem.q_heads) * problem.head_dim;
  for (size_t i = 0; i < decode.out.size(); ++i) {
    EXPECT_EQ(std::isfinite(decode.out[i]), i / row < 2 || i % problem.head_dim != 0) << i;
  }
  EXPECT_TRUE(SameBits(decode.out, AttendFinished(problem, tensors, {}).out));
}

TEST(Nodes, MergeAndFinishAreTheDefinition) {
  const Problem problem{.head_dim = 80, .q_heads = 3, .rows = 11, .first_position = 0, .tokens = 200};
  const Tensors tensors(problem, 9);
  // Rows 0 to 10 see nothing of block 1; shifted ones see both blocks.
  for (const int64_t first : {0, 125, 160}) {
    Problem shifted = problem;
    shifted.first_position = first;
    Node left = AttendNodes(shifted, tensors, {.blocks = {0, 1}}).nodes[0];
    const Node right = AttendNodes(shifted, tensors, {.blocks = {1, 2}}).nodes[0];
    Node expected = left;
    Merge(problem.head_dim, &expected, right);
    EXPECT_EQ(MergeByKernel(problem.q_heads, &left, right).fault, "");
    EXPECT_TRUE(SameBits(left.o, expected.o));
    EXPECT_TRUE(SameBits(left.m, expected.m));
    EXPECT_TRUE(SameBits(left.l, expected.l));
    const Finished finished = FinishByKernel(problem, tensors, left);
    EXPECT_EQ(finished.report.fault, "");
    const Finished plain = Finish(problem.head_dim, expected);
    EXPECT_TRUE(SameBits(finished.out, plain.out));
    EXPECT_TRUE(SameBits(finished.lse, plain.lse));
  }
}

}  // namespace
}  // namespace rondo::cuda
