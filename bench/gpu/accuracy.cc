// Every kernel against float64: random data, poisoned outputs, all masks, head sizes and ragged lengths.
#include <algorithm>
#include <vector>

#include "bench/gpu/lines.h"
#include "bench/gpu/run_attention.h"
#include "bench/gpu/sections.h"

namespace rondo::gpu_check {
namespace {

constexpr int kRowsLookedAt = 24;

std::vector<Shape> Shapes(int d) {
  const int64_t block = cuda::kBlockTokens;
  const OracleMask causal, none{.causal = false};
  std::vector<Shape> shapes = {
      {.head_dim = d, .q_heads = 8, .kv_heads = 1, .rows = 1, .tokens = 1, .mask = causal},
      {.head_dim = d, .q_heads = 4, .kv_heads = 4, .rows = 129, .tokens = 129, .mask = causal},
      {.head_dim = d, .rows = 2048, .tokens = 2048, .mask = causal},
      {.head_dim = d, .rows = 2048, .tokens = 2048, .mask = none},
      // Two blocks and a ragged third, queries at the end.
      {.head_dim = d, .rows = 777, .tokens = 2 * block + 1003, .first_position = 2 * block + 226, .mask = causal},
      {.head_dim = d, .rows = 300, .tokens = 5 * block + 1, .mask = none},
      {.head_dim = d,
       .rows = 600,
       .tokens = 2 * block,
       .first_position = block - 300,
       .mask = {.causal = true, .window = 500}},
      {.head_dim = d,
       .rows = 600,
       .tokens = 2 * block,
       .first_position = block - 300,
       .mask = {.causal = false, .window = 500}},
      {.head_dim = d, .rows = 500, .tokens = block + 500, .first_position = block, .mask = {.visible_begin = 1000}},
      // Hidden keys at both ends, and rows that see nothing.
      {.head_dim = d,
       .rows = 1500,
       .tokens = 2000,
       .mask = {.causal = true, .visible_begin = 700, .visible_end = 1900}},
      {.head_dim = d, .rows = 200, .tokens = 3000, .mask = none, .softcap = 30, .q_deviation = 4},
      {.head_dim = d, .rows = 700, .tokens = 700, .mask = causal, .alibi = true},
      {.head_dim = d, .rows = 700, .tokens = 700, .mask = causal, .sinks = true},
      {.head_dim = d, .q_heads = 6, .kv_heads = 2, .rows = 700, .tokens = 700, .mask = causal, .q_deviation = 8},
  };
  return shapes;
}

void CheckShape(const AttentionKernel& kernel, const Shape& shape, uint64_t seed) {
  const Problem problem(shape, seed);
  RowErrors errors;
  for (const bool as_float : {true, false}) {
    const FinishedRows rows(shape, as_float);
    AttendFinished(kernel, problem, rows);
    for (const Sample& sample : Samples(shape, kRowsLookedAt / 2)) {
      AddErrors(problem.Oracle(sample.row, sample.head), rows.Out(sample.row, sample.head),
                rows.Lse(sample.row, sample.head), &errors);
    }
  }
  Line("check")
      .Text("kernel", kernel.name)
      .Text("case", shape.Words())
      .Bool("pass", errors.fine())
      .Number("out_error", errors.out)
      .Number("lse_error", errors.lse)
      .Say();
}

}  // namespace

void CheckAccuracy() {
  for (const AttentionKernel& kernel : PrefillKernels()) {
    for (const int head_dim : kernel.head_dims) {
      uint64_t seed = 1;
      for (const Shape& shape : Shapes(head_dim)) CheckShape(kernel, shape, seed++);
    }
  }
}

}  // namespace rondo::gpu_check
