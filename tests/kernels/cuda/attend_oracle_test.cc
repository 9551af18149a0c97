// The prefill kernel against plain loops in float64: head sizes, types, masks, odd lengths, memory layouts. Outputs are
// NaN before, keys nobody sees hold NaN, and every access is checked.
#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/cuda/emulated.h"

namespace rondo::cuda {
namespace {

void ExpectRight(const Problem& problem, const HowToRun& run = {}) {
  SCOPED_TRACE(problem.Describe());
  const Tensors tensors(problem, 11);
  const Finished got = AttendFinished(problem, tensors, run);
  ASSERT_EQ(got.report.fault, "");
  const Errors errors = Compare(PlainLoops(problem, tensors), got.out, got.lse);
  EXPECT_TRUE(Acceptable(problem.type, errors)) << "out " << errors.out << " lse " << errors.lse;
}

TEST(AttendOracle, EveryHeadSizeAndType) {
  for (const auto& [type, head_dim] : TestedKernels()) {
    ExpectRight({.type = type, .head_dim = head_dim, .rows = 70, .first_position = 130, .tokens = 200});
    // Over several blocks, which are merged.
    constexpr int64_t kTokens = 3 * kTestBlock + 20;
    ExpectRight({.type = type, .head_dim = head_dim, .rows = 70, .first_position = kTokens - 70, .tokens = kTokens});
  }
}

TEST(AttendOracle, GroupedHeadsOverSeveralBlocksAndCtas) {
  ExpectRight({.q_heads = 6, .kv_heads = 2, .rows = 100, .first_position = 280, .tokens = 380}, {.ctas = 5});
}

TEST(AttendOracle, EveryMask) {
  ExpectRight({.rows = 90, .first_position = 400, .tokens = 490, .window = 100});
  ExpectRight({.rows = 90, .first_position = 400, .tokens = 490, .window = 1});
  ExpectRight({.rows = 90, .first_position = 100, .tokens = 300, .causal = false});
  ExpectRight({.rows = 90, .first_position = 100, .tokens = 300, .causal = false, .window = 40});
  ExpectRight({.rows = 90, .first_position = 150, .tokens = 300, .visible_begin = 70, .visible_end = 200});
  ExpectRight(
      {.rows = 90, .first_position = 150, .tokens = 300, .causal = false, .visible_begin = 130, .visible_end = 131});
}

TEST(AttendOracle, SoftCapAlibiAndSinks) {
  ExpectRight({.q_heads = 2, .rows = 60, .first_position = 100, .tokens = 160, .softcap = 5, .amplitude = 6});
  ExpectRight({.rows = 60, .first_position = 100, .tokens = 160, .softcap = 1e6f});
  ExpectRight({.rows = 60, .first_position = 100, .tokens = 160, .softcap = 1e-3f});
  ExpectRight({.q_heads = 4, .rows = 60, .first_position = 200, .tokens = 260, .alibi = true});
  ExpectRight({.q_heads = 3, .rows = 60, .first_position = 100, .tokens = 160, .sinks = true});
  ExpectRight({.q_heads = 3,
               .rows = 60,
               .first_position = 100,
               .tokens = 160,
               .window = 30,
               .softcap = 20,
               .alibi = true,
               .sinks = true});
}

TEST(AttendOracle, RowsThatSeeNothing) {
  // Rows at negative positions, before every key; before and after what is visible; no keys at all; no rows.
  ExpectRight({.rows = 90, .first_position = -40, .tokens = 60});
  ExpectRight({.q_heads = 2, .rows = 90, .first_position = -40, .tokens = 60, .sinks = true});
  ExpectRight({.rows = 80, .first_position = 300, .tokens = 200, .window = 50});
  ExpectRight({.q_heads = 2, .rows = 20, .first_position = 0, .tokens = 0, .sinks = true});
  ExpectRight({.rows = 0, .first_position = 5, .tokens = 100});
}

TEST(AttendOracle, OddLengths) {
  for (const int64_t length : {1, 15, 63, 64, 65, 127, 128, 129, 257}) {
    ExpectRight({.rows = length, .tokens = length});
    ExpectRight({.rows = 1, .first_position = length - 1, .tokens = length}, {.layout = Layout::kPages});
  }
}

TEST(AttendOracle, PagesInAnyOrder) {
  ExpectRight({.q_heads = 2, .kv_heads = 2, .rows = 64, .first_position = 450, .tokens = 514},
              {.layout = Layout::kPages});
}

TEST(AttendOracle, ScoresThatRiseAndReachFar) {
  ExpectRight({.rows = 64, .first_position = 200, .tokens = 264, .amplitude = 100});
  ExpectRight({.type = ElementType::kFp16, .rows = 64, .first_position = 200, .tokens = 264, .amplitude = 60});
}

TEST(AttendOracle, EverySchedule) {
  for (const simt::Options& options : simt::AllSchedules(3)) {
    ExpectRight({.rows = 70, .first_position = 210, .tokens = 280, .window = 150}, {.options = options});
  }
}

}  // namespace
}  // namespace rondo::cuda
