// A few launches that end soon under compute-sanitizer and still reach every path: two blocks and a ragged third, rows
// that fill no tile, nodes and finished rows.
#include "bench/gpu/dense/dense.h"
#include "bench/gpu/lines.h"
#include "bench/gpu/run_attention.h"
#include "bench/gpu/run_decode.h"
#include "bench/gpu/sections.h"

namespace rondo::gpu_check {

void CheckSmall() {
  for (const AttentionKernel& kernel : PrefillKernels()) {
    for (const int head_dim : kernel.head_dims) {
      Shape shape{.head_dim = head_dim, .q_heads = 2, .kv_heads = 1, .rows = 67, .tokens = BlockTokens() + 130};
      shape.first_position = shape.tokens - shape.rows;
      shape.mask.window = 1500;
      const Problem problem(shape, 3);
      const FinishedRows rows(shape, false);
      AttendFinished(kernel, problem, rows);
      const std::vector<Node> nodes = AttendNodes(kernel, problem, 0, shape.rows, {0, problem.blocks()});
      RowErrors errors;
      AddErrors(problem.Oracle(40, 1), rows.Out(40, 1), rows.Lse(40, 1), &errors);
      Line("check")
          .Text("kernel", kernel.name)
          .Text("case", shape.Words())
          .Bool("pass", errors.fine() && !nodes.empty())
          .Say();
    }
  }
  for (const int head_dim : DecodeHeadDims()) {
    Shape shape{.head_dim = head_dim, .q_heads = 4, .kv_heads = 2, .rows = 3, .tokens = DecodeBlockTokens() * 5 / 2};
    shape.first_position = shape.tokens - shape.rows;
    const Problem problem(shape, 4);
    const FinishedRows rows(shape, true), merged(shape, true);
    Decode decode(problem, 0, shape.rows);
    decode.FinishInto({&rows});
    decode.Finish();
    NodeMemory nodes(shape, shape.rows, DecodeBlocks(problem));  // of two blocks, and of one
    decode.NodesInto({&nodes});
    decode.Finish();
    std::string wrong = LaunchMerge(nodes.Args(0), nodes.Args(1), shape.rows, shape.q_heads, head_dim);
    if (wrong.empty()) wrong = LaunchFinish(nodes.Args(0), merged.Args(), shape.rows, shape.q_heads, head_dim);
    if (!wrong.empty()) Fail(wrong);
    RequireFinished("merge and finish");
    Line("check")
        .Text("kernel", "sm80 decode, merge, finish")
        .Text("case", shape.Words())
        .Bool("pass", rows.out_float.ToHost() == merged.out_float.ToHost())
        .Say();
  }
  DenseSizes sizes;
  sizes.cols = 576;
  sizes.vocabulary = 5000;
  CheckWholeRows(sizes);
  CheckFewRows({.n = 70, .k = 512});
}

}  // namespace rondo::gpu_check
