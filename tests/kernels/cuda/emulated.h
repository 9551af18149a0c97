// Runs the CUDA attention kernels on the emulator over a Problem: all of it, or a shard of its keys or rows; used by
// the kernels' tests. Which prefill kernel AttendFinished and AttendNodes run is a matter of linking: emulated_sm80.cc
// or emulated_sm90.cc, so that the same tests hold both to the same answers.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "rondo/canonical.h"
#include "tests/kernels/cuda/problem.h"
#include "tests/testing/simt/launch.h"

namespace rondo::cuda {

// Canonical blocks of the instantiations under test: small, so that short sequences make deep trees.
#if defined(RONDO_TEST_BLOCK)
inline constexpr int64_t kTestBlock = RONDO_TEST_BLOCK;
#else
inline constexpr int64_t kTestBlock = 128;
#endif

// What outputs hold before a kernel writes them.
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// How keys lie in memory.
enum class Layout {
  kRows,   // [tokens, kv_heads, head_dim]
  kPages,  // pages of [kv_heads, 64, head_dim] in shuffled order, found by a table
};

struct HowToRun {
  simt::Options options = {};
  int ctas = 2;
  Layout layout = Layout::kRows;
  int warp_tiles = 1;  // of the sm_80 kernel
  // The part of the rows and of the key blocks to attend; by default all.
  int64_t row_begin = 0, row_end = -1;
  BlockRange blocks = {0, -1};
};

struct Finished {
  std::vector<float> out;  // [rows, q_heads, head_dim] of the run's rows
  std::vector<float> lse;  // [rows, q_heads]
  simt::Report report;
};

struct Node {
  NodeId id;
  std::vector<float> o, m, l;
};
struct Nodes {
  std::vector<Node> nodes;
  simt::Report report;
};

// The instantiations that are linked.
struct TestedKernel {
  ElementType type;
  int head_dim;
};
std::vector<TestedKernel> TestedKernels();

// The launch itself; args lacks the scratch.
simt::Report LaunchAttend(const Problem& problem, const HowToRun& run, const simt::Options& options, int64_t blocks,
                          const AttentionArgs& args);

// Blocks that hold the problem's keys.
BlockRange AllBlocks(const Problem& problem);

Finished AttendFinished(const Problem& problem, const Tensors& tensors, const HowToRun& run);
Nodes AttendNodes(const Problem& problem, const Tensors& tensors, const HowToRun& run);

}  // namespace rondo::cuda
