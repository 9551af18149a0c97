// What a mutant of the sm_80 kernels is put through: a few problems that between them reach every line. Prints what was
// wrong and exits 1, or exits 0: a mistake that nobody noticed. run.py compiles it for blocks of 256 tokens, four tiles
// of keys, so that decode's three stages come round.
#include "tests/kernels/cuda/mutation/probe.h"

#include <limits>

#include "tests/kernels/cuda/emulated_decode.h"
#include "tests/kernels/cuda/fold.h"

namespace rondo::cuda {
namespace {

const Problem kProblems[] = {
    {.q_heads = 4, .kv_heads = 2, .rows = 70, .first_position = 230, .tokens = 300, .amplitude = 3},
    {.rows = 40, .first_position = 330, .tokens = 370, .window = 150},
    {.rows = 40, .first_position = 100, .tokens = 140, .causal = false, .window = 30},
    {.q_heads = 3,
     .rows = 20,
     .first_position = 50,
     .tokens = 70,
     .softcap = 5,
     .alibi = true,
     .sinks = true,
     .amplitude = 6},
    {.rows = 20, .first_position = -10, .tokens = 40},
};

void CheckPrefill() {
  for (const Problem& problem : kProblems) {
    const Tensors tensors(problem, 1);
    CheckRight(problem, tensors, AttendFinished(problem, tensors, {}), "prefill");
  }
  for (const simt::Options& options : simt::AllSchedules(2)) {
    const Tensors tensors(kProblems[1], 2);
    CheckRight(kProblems[1], tensors, AttendFinished(kProblems[1], tensors, {.options = options}), "prefill");
  }
}

void CheckNotFinite() {
  const Problem problem{.rows = 10, .first_position = 30, .tokens = 40};
  Tensors tensors(problem, 4);
  const Finished got = CheckInfinite(problem, tensors, 35, 5, {});
  CheckBits(DecodeFinished({{&problem, &tensors, {}}}, {}).front().out, got.out, "decode of infinite values");
}

void CheckDecode() {
  for (const Problem& problem : kProblems) {
    Problem few = problem;
    few.rows = 3;
    few.first_position = problem.first_position + problem.rows - 3;
    const Tensors tensors(few, 5);
    const Finished got = DecodeFinished({{&few, &tensors, {}}}, {}).front();
    CheckRight(few, tensors, got, "decode");
    CheckBits(got.out, AttendFinished(few, tensors, {}).out, "decode and prefill");
  }
  Problem few = kLong;
  few.q_heads = 4;
  few.rows = 5;
  few.first_position = kLongTokens - 5;
  const Tensors tensors(few, 6);
  for (const simt::Options& options : simt::AllSchedules(7)) {
    const Nodes nodes = DecodeNodes({{&few, &tensors, {.layout = Layout::kPages, .blocks = {5, 8}}}}, options).front();
    CheckReport(nodes.report);
    const Nodes expected = AttendNodes(few, tensors, {.blocks = {5, 8}});
    for (size_t i = 0; i < nodes.nodes.size(); ++i) {
      CheckBits(nodes.nodes[i].o, expected.nodes[i].o, "nodes of decode and prefill");
      CheckBits(nodes.nodes[i].l, expected.nodes[i].l, "nodes of decode and prefill");
    }
  }
  constexpr int64_t kDeep = 21 * kTestBlock - 5;
  // More leaves than a warp folds at once, all of which matter: small scores. A window hides the first ones of a run
  // that begins in the middle of what is folded at once.
  for (const int64_t first : {0, 3}) {
    const Problem deep{.rows = 1,
                       .first_position = kDeep - 1,
                       .tokens = kDeep,
                       .window = first == 0 ? 0 : kDeep - first * kTestBlock - 20,
                       .amplitude = 0.3f};
    const Tensors deep_tensors(deep, 8);
    const BlockRange blocks{first, 21};
    const Nodes folded = DecodeNodes({{&deep, &deep_tensors, {.blocks = blocks}}}, {}).front();
    CheckReport(folded.report);
    const Nodes walked = AttendNodes(deep, deep_tensors, {.blocks = blocks});
    for (size_t i = 0; i < folded.nodes.size(); ++i) CheckBits(folded.nodes[i].o, walked.nodes[i].o, "a deep tree");
    const Finished decoded = DecodeFinished({{&deep, &deep_tensors, {.blocks = blocks}}}, {}).front();
    CheckRight(deep, deep_tensors, decoded, "deep decode");
    CheckBits(decoded.out, AttendFinished(deep, deep_tensors, {.blocks = blocks}).out, "a deep tree, finished");
  }
  // Two sequences.
  const Finished whole = AttendFinished(few, tensors, {});
  for (const Finished& got : DecodeFinished({{&few, &tensors, {}}, {&few, &tensors, {}}}, {})) {
    CheckReport(got.report);
    CheckBits(got.out, whole.out, "decode of two sequences");
  }
}

}  // namespace
}  // namespace rondo::cuda

int main() {
  rondo::cuda::CheckPrefill();
  rondo::cuda::CheckLaw(3);
  rondo::cuda::CheckNotFinite();
  rondo::cuda::CheckDecode();
  return 0;
}
