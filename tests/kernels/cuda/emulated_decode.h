// Runs the decode kernels, and those on nodes, on the emulator; used by their tests.
#pragma once

#include <vector>

#include "tests/kernels/cuda/emulated.h"

namespace rondo::cuda {

struct SequenceRun {
  const Problem* problem;
  const Tensors* tensors;
  HowToRun how;  // blocks and layout; options are those of the launch
};

// One launch over several sequences, which agree in heads, head size, type, mask and score. Results in their order; the
// report of the launch is in each.
std::vector<Finished> DecodeFinished(const std::vector<SequenceRun>& sequences, const simt::Options& options);
std::vector<Nodes> DecodeNodes(const std::vector<SequenceRun>& sequences, const simt::Options& options);

// left <- merge(left, right) and the finished root, by the kernels.
simt::Report MergeByKernel(int q_heads, Node* left, const Node& right);
Finished FinishByKernel(const Problem& problem, const Tensors& tensors, const Node& root);

}  // namespace rondo::cuda
