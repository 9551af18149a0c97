// The steps of a ring of four on one card: 8,192 rows attend 8,192 keys a step, nodes are carried, merged and finished;
// beside one launch that attends all keys. What a step's transfer costs is not in it.
#include <functional>
#include <memory>
#include <vector>

#include "bench/gpu/lines.h"
#include "bench/gpu/run_attention.h"
#include "bench/gpu/run_decode.h"
#include "bench/gpu/sections.h"

namespace rondo::gpu_check {
namespace {

constexpr int kSteps = 4;
constexpr int64_t kStepBlocks = 2;  // a subtree, so that a step gives one node

void OrFail(const std::string& wrong) {
  if (!wrong.empty()) Fail("ring: " + wrong);
}

void Measure(const AttentionKernel& kernel, int head_dim, bool causal) {
  const int64_t step_tokens = kStepBlocks * BlockTokens();
  Shape shape{.head_dim = head_dim, .rows = step_tokens, .tokens = kSteps * step_tokens, .mask = {.causal = causal}};
  shape.first_position = shape.tokens - shape.rows;  // the rank that sees most
  const Problem problem(shape, 31);
  const FinishedRows whole(shape, true), stepped(shape, true);
  cuda::AttentionArgs args = problem.Args();
  args.output = whole.Args();
  const Launch one(kernel, args, shape.head_dim);

  std::vector<std::unique_ptr<NodeMemory>> nodes;
  std::vector<Launch> steps;
  for (int step = 0; step < kSteps; ++step) {
    const BlockRange blocks{step * kStepBlocks, (step + 1) * kStepBlocks};
    nodes.push_back(std::make_unique<NodeMemory>(shape, shape.rows, blocks));
    args = problem.Args(0, shape.rows, blocks.begin, blocks.end);
    args.output = {};
    args.nodes = nodes.back()->Args();
    steps.emplace_back(kernel, args, shape.head_dim);
  }
  const auto merge = [&](int left, int right) {
    OrFail(LaunchMerge(nodes[left]->Args(), nodes[right]->Args(), shape.rows, shape.q_heads, shape.head_dim));
  };
  const auto in_steps = [&] {
    for (int step = 0; step < kSteps; ++step) {
      steps[step].Queue();
      if (step == 1) merge(0, 1);
      if (step == 3) merge(2, 3);
    }
    merge(0, 2);
    OrFail(LaunchFinish(nodes[0]->Args(), stepped.Args(), shape.rows, shape.q_heads, shape.head_dim));
  };
  const std::vector<double> ms = MedianMs({[&] { one.Queue(); }, in_steps}, 9);
  Line("row")
      .Text("kernel", kernel.name)
      .Count("head_dim", head_dim)
      .Text("mask", causal ? "causal" : "none")
      .Number("one_launch_ms", ms[0])
      .Number("four_steps_ms", ms[1])
      .Number("percent_more", 100 * (ms[1] / ms[0] - 1))
      .Bool("pass",
            whole.out_float.ToHost() == stepped.out_float.ToHost() && whole.lse.ToHost() == stepped.lse.ToHost())
      .Say();
}

}  // namespace

void MeasureRing() {
  if (!Fits(size_t{4} << 30)) {
    Line("absent").Text("what", "ring").Text("why", "4 GiB of free device memory are wanted").Say();
    return;
  }
  for (const AttentionKernel& kernel : PrefillKernels()) {
    const int head_dim = Has(kernel, 128) ? 128 : kernel.head_dims.front();
    for (const bool causal : {false, true}) Measure(kernel, head_dim, causal);
  }
}

}  // namespace rondo::gpu_check
