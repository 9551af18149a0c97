// The prefill kernel against plain loops in float64.
#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/cuda/emulated.h"

namespace rondo::cuda {
namespace {

void ExpectRight(const Problem& problem, const Run& run) {
  SCOPED_TRACE(problem.Describe());
  const Tensors tensors(problem, 11);
  const Finished got = AttendFinished(problem, tensors, run);
  ASSERT_EQ(got.report.fault, "");
  const Errors errors = Compare(PlainLoops(problem, tensors), got.out, got.lse);
  EXPECT_TRUE(Acceptable(problem.type, errors)) << "out " << errors.out << " lse " << errors.lse;
}

TEST(AttendOracle, CausalOverSeveralBlocks) {
  ExpectRight({.q_heads = 2, .rows = 100, .first_position = 280, .tokens = 380}, {});
}

TEST(AttendOracle, EverySchedule) {
  for (const simt::Options& options : simt::AllSchedules(3)) {
    ExpectRight({.q_heads = 2, .rows = 70, .first_position = 210, .tokens = 280, .causal = true, .window = 150},
                {.options = options});
  }
}

}  // namespace
}  // namespace rondo::cuda
