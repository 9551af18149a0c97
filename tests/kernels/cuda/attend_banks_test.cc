// What ldmatrix of the sm_80 prefill kernel costs: one pass through shared memory, without conflicts of banks.
#include <gtest/gtest.h>

#include "tests/kernels/cuda/emulated.h"

namespace rondo::cuda {
namespace {

TEST(AttendBanks, NoConflicts) {
  for (const auto& [type, head_dim] : TestedKernels()) {
    const Problem problem{.type = type, .head_dim = head_dim, .rows = 64, .first_position = 0, .tokens = 64};
    const Tensors tensors(problem, 2);
    const Finished got = AttendFinished(problem, tensors, {.ctas = 1});
    EXPECT_EQ(got.report.fault, "");
    EXPECT_GT(got.report.counters.ldmatrix, 0u);
    EXPECT_EQ(got.report.counters.bank_conflicts, 0u) << head_dim;
  }
}

}  // namespace
}  // namespace rondo::cuda
