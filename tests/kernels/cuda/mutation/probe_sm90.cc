// What a mutant of the sm_90a kernel is put through: see probe.cc. Blocks of 256 tokens are two tiles of keys.
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

// The first item is done again after the second: group 0 sees only a part of the tile with the bad value, group 1 all.
void CheckNotFinite() {
  const Problem problem{.rows = 138, .first_position = 200, .tokens = 338};
  Tensors tensors(problem, 8);
  CheckInfinite(problem, tensors, 230, 30, {.ctas = 1});
}

}  // namespace
}  // namespace rondo::cuda

int main() {
  rondo::cuda::CheckProblems();
  rondo::cuda::CheckLaw(7);
  rondo::cuda::CheckNotFinite();
  rondo::cuda::CheckSchedules();
  return 0;
}
