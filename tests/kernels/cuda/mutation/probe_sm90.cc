// What a mutant of the sm_90a kernel is put through: see probe.cc. Blocks of 256 tokens are two tiles of keys.
#include <cmath>

#include "tests/kernels/cuda/fold.h"
#include "tests/kernels/cuda/mutation/probe.h"

namespace rondo::cuda {
namespace {

void CheckOne(const Problem& problem, uint64_t seed, const HowToRun& run) {
  const Tensors tensors(problem, seed);
  CheckRight(problem, tensors, AttendFinished(problem, tensors, run), "prefill");
}

void CheckProblems() {
  // Whole tiles by TMA, cut ones by hand at both ends, rows of one group and of two, several items a CTA.
  CheckOne({.q_heads = 4, .kv_heads = 2, .rows = 150, .first_position = 620, .tokens = 770, .amplitude = 3}, 1, {});
  CheckOne({.rows = 40, .first_position = 630, .tokens = 670, .window = 350}, 2, {.layout = Layout::kPages});
  CheckOne({.rows = 140, .first_position = 100, .tokens = 300, .causal = false, .window = 30}, 3, {.ctas = 1});
  CheckOne({.q_heads = 3,
            .rows = 20,
            .first_position = 50,
            .tokens = 70,
            .softcap = 5,
            .alibi = true,
            .sinks = true,
            .amplitude = 6},
           4, {});
  CheckOne({.rows = 20, .first_position = -10, .tokens = 40}, 5, {});
  // Items without keys, which nothing but their slots keeps from overtaking; some schedule lets the copying warp try.
  const Problem no_keys{.q_heads = 6, .rows = 20, .first_position = -40, .tokens = 40};
  for (const simt::Options& options : simt::AllSchedules(3)) CheckOne(no_keys, 9, {.options = options, .ctas = 1});
}

void CheckSchedules() {
  const Problem problem{.rows = 70, .first_position = 700, .tokens = 770, .window = 600, .amplitude = 2};
  for (const simt::Options& options : simt::AllSchedules(2)) CheckOne(problem, 6, {.options = options, .ctas = 1});
}

constexpr int64_t kLength = 7 * kTestBlock + 10;

void CheckLaw() {
  const Problem problem{.q_heads = 2, .rows = 66, .first_position = kLength - 66, .tokens = kLength, .amplitude = 3};
  const Tensors tensors(problem, 7);
  const Finished whole = AttendFinished(problem, tensors, {});
  CheckRight(problem, tensors, whole, "prefill");
  std::vector<Node> nodes;
  for (const BlockRange blocks : {BlockRange{0, 3}, {3, 8}}) {
    Nodes part = AttendNodes(problem, tensors, {.layout = Layout::kPages, .blocks = blocks});
    CheckReport(part.report);
    for (Node& node : part.nodes) nodes.push_back(std::move(node));
  }
  const Finished folded = Finish(problem.head_dim, FoldToRoot(problem.head_dim, std::move(nodes)));
  CheckBits(folded.out, whole.out, "shards");
  CheckBits(folded.lse, whole.lse, "shards");
  const Finished row = AttendFinished(problem, tensors, {.ctas = 1, .row_begin = 33, .row_end = 34});
  CheckReport(row.report);
  CheckBits(row.out, {whole.out.begin() + 33 * 128, whole.out.begin() + 34 * 128}, "a row alone");
}

// The first item is done again after the second: group 0 sees only a part of the tile with the bad value, group 1 all.
void CheckNotFinite() {
  const Problem problem{.rows = 138, .first_position = 200, .tokens = 338};
  Tensors tensors(problem, 8);
  tensors.v[230 * problem.head_dim] = 0x7f80;  // infinity, seen by rows 30 and up
  const Finished got = AttendFinished(problem, tensors, {.ctas = 1});
  CheckReport(got.report);
  for (int row = 0; row < problem.rows; ++row) {
    if (std::isfinite(got.out[row * problem.head_dim]) != (row < 30)) Found("infinite value in the wrong rows");
  }
}

}  // namespace
}  // namespace rondo::cuda

int main() {
  rondo::cuda::CheckProblems();
  rondo::cuda::CheckLaw();
  rondo::cuda::CheckNotFinite();
  rondo::cuda::CheckSchedules();
  return 0;
}
