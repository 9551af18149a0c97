// A few launches that end soon under compute-sanitizer and still reach every path: two blocks and a ragged third, rows
// that fill no tile, nodes and finished rows.
#include "bench/gpu/lines.h"
#include "bench/gpu/run_attention.h"
#include "bench/gpu/sections.h"

namespace rondo::gpu_check {

void CheckSmall() {
  for (const AttentionKernel& kernel : PrefillKernels()) {
    for (const int head_dim : kernel.head_dims) {
      Shape shape{.head_dim = head_dim, .q_heads = 2, .kv_heads = 1, .rows = 67, .tokens = cuda::kBlockTokens + 130};
      shape.first_position = shape.tokens - shape.rows;
      shape.mask.window = 1500;
      const Problem problem(shape, 3);
      const FinishedRows rows(shape, false);
      AttendFinished(kernel, problem, rows);
      const std::vector<Node> nodes = AttendNodes(kernel, problem, 0, shape.rows, {0, problem.blocks()});
      RowErrors errors;
      AddErrors(problem.Oracle(66, 1), rows.Out(66, 1), rows.Lse(66, 1), &errors);
      Line("check")
          .Text("kernel", kernel.name)
          .Text("case", shape.Words())
          .Bool("pass", errors.fine() && !nodes.empty())
          .Say();
    }
  }
}

}  // namespace rondo::gpu_check
