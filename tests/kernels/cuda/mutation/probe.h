// What probes for mutants share: the first thing that is wrong is printed and ends the program with 1.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/kernels/cuda/emulated.h"
#include "tests/kernels/cuda/fold.h"

namespace rondo::cuda {

[[noreturn]] inline void Found(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::exit(1);
}

inline void CheckReport(const simt::Report& report) {
  if (!report.ok()) Found(report.fault);
  if (report.counters.bank_conflicts != 0) Found("bank conflicts");
}

inline void CheckBits(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  if (a.size() != b.size() || std::memcmp(a.data(), b.data(), a.size() * 4) != 0)
    Found(std::string("other bits: ") + what);
}

inline void CheckRight(const Problem& problem, const Tensors& tensors, const Finished& got, const char* what) {
  CheckReport(got.report);
  const Errors errors = Compare(PlainLoops(problem, tensors), got.out, got.lse);
  if (!Acceptable(problem.type, errors)) Found(std::string("wrong ") + what + ": " + problem.Describe());
}

// A tree of eight blocks, the last one ragged, and rows of two groups.
inline constexpr int64_t kLongTokens = 7 * kTestBlock + 10;
inline const Problem kLong{
    .q_heads = 2, .rows = 66, .first_position = kLongTokens - 66, .tokens = kLongTokens, .amplitude = 3};

// Shards folded, and a row alone, have the bits of all rows over all keys.
inline void CheckLaw(uint64_t seed) {
  const Tensors tensors(kLong, seed);
  const Finished whole = AttendFinished(kLong, tensors, {});
  CheckRight(kLong, tensors, whole, "prefill");
  std::vector<Node> nodes;
  for (const BlockRange blocks : {BlockRange{0, 3}, {3, 8}}) {
    Nodes part = AttendNodes(kLong, tensors, {.layout = Layout::kPages, .blocks = blocks});
    CheckReport(part.report);
    for (Node& node : part.nodes) nodes.push_back(std::move(node));
  }
  const Finished folded = Finish(kLong.head_dim, FoldToRoot(kLong.head_dim, std::move(nodes)));
  CheckBits(folded.out, whole.out, "shards");
  CheckBits(folded.lse, whole.lse, "shards");
  const Finished row = AttendFinished(kLong, tensors, {.ctas = 1, .row_begin = 33, .row_end = 34});
  CheckReport(row.report);
  CheckBits(row.out, {whole.out.begin() + 33 * 128, whole.out.begin() + 34 * 128}, "a row alone");
}

// V is infinite at one key, which the rows from `first_row` on see: they alone come out so.
inline Finished CheckInfinite(const Problem& problem, Tensors& tensors, int64_t key, int first_row,
                              const HowToRun& run) {
  tensors.v[key * problem.head_dim] = 0x7f80;
  Finished got = AttendFinished(problem, tensors, run);
  CheckReport(got.report);
  for (int row = 0; row < problem.rows; ++row) {
    if (std::isfinite(got.out[row * problem.head_dim]) != (row < first_row)) Found("infinite value in the wrong rows");
  }
  return got;
}

}  // namespace rondo::cuda
