// Every kernel against float64: random data, poisoned outputs, all masks, head sizes and ragged lengths.
#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/lines.h"
#include "bench/gpu/run_attention.h"
#include "bench/gpu/run_decode.h"
#include "bench/gpu/sections.h"

namespace rondo::gpu_check {
namespace {

constexpr int kRowsLookedAt = 24;

std::vector<Shape> Shapes(int d) {
  const int64_t block = BlockTokens();
  const OracleMask causal, none{.causal = false};
  const Shape few{.head_dim = d, .q_heads = 8, .kv_heads = 2};
  const auto with = [&few](int64_t rows, int64_t tokens, int64_t first_position, const OracleMask& mask) {
    Shape shape = few;
    shape.rows = rows;
    shape.tokens = tokens;
    shape.first_position = first_position;
    shape.mask = mask;
    return shape;
  };
  std::vector<Shape> shapes = {
      {.head_dim = d, .q_heads = 8, .kv_heads = 1, .rows = 1, .tokens = 1, .mask = causal},
      {.head_dim = d, .q_heads = 4, .kv_heads = 4, .rows = 129, .tokens = 129, .mask = causal},
      {.head_dim = d, .rows = block / 2, .tokens = block / 2, .mask = causal},
      {.head_dim = d, .rows = block / 2, .tokens = block / 2, .mask = none},
      // Two blocks and a ragged third, queries at the end.
      with(777, 2 * block + 1003, 2 * block + 226, causal),
      with(300, 5 * block + 1, 0, none),
      // Rows on both sides of a block's border.
      with(600, 2 * block, block - 300, {.causal = true, .window = 500}),
      with(600, 2 * block, block - 300, {.causal = false, .window = 500}),
      with(500, block + 500, block, {.visible_begin = 1000}),
      // Hidden keys at both ends, and rows that see nothing.
      with(1100, 1500, 0, {.causal = true, .visible_begin = 500, .visible_end = 1050}),
      {.head_dim = d, .q_heads = 16, .rows = 100, .tokens = 3000, .mask = none, .softcap = 30, .q_deviation = 4},
      {.head_dim = d, .q_heads = 16, .rows = 700, .tokens = 700, .mask = causal, .alibi = true},
      {.head_dim = d, .q_heads = 16, .rows = 700, .tokens = 700, .mask = causal, .sinks = true},
      {.head_dim = d, .q_heads = 6, .kv_heads = 2, .rows = 700, .tokens = 700, .mask = causal, .q_deviation = 8},
  };
  return shapes;
}

void SayErrors(const char* kernel, const std::string& words, const RowErrors& errors) {
  Line("check")
      .Text("kernel", kernel)
      .Text("case", words)
      .Bool("pass", errors.fine())
      .Number("out_error", errors.out)
      .Number("lse_error", errors.lse)
      .Say();
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
  SayErrors(kernel.name, shape.Words(), errors);
}

// Sequences of one launch: they share mask, heads and scores.
std::vector<std::vector<Shape>> DecodeShapes(int d) {
  const int64_t block = BlockTokens();
  const auto last = [](Shape shape, int64_t rows, int64_t tokens) {
    shape.rows = rows;
    shape.tokens = tokens;
    shape.first_position = tokens - rows;
    return shape;
  };
  const Shape plain{.head_dim = d};
  const Shape window{.head_dim = d, .mask = {.causal = true, .window = 5000}};
  const Shape none{.head_dim = d, .q_heads = 6, .kv_heads = 2, .mask = {.causal = false}};
  const Shape bent{.head_dim = d, .softcap = 30, .alibi = true, .sinks = true, .q_deviation = 3};
  return {
      {last(plain, 1, 1)},
      {last(plain, 1, 8 * block)},
      {last(plain, 3, 700), last(plain, 1, 2 * block + 9), last(plain, 5, block)},
      {last(window, 2, 3 * block), last(window, 1, 100)},
      {last(none, 4, block + 1), last(none, 1, 64)},
      {last(bent, 2, 3000)},  // slopes are the launch's, and come from the first sequence
  };
}

void CheckDecode(const std::vector<Shape>& shapes, uint64_t seed) {
  std::vector<std::unique_ptr<Problem>> problems;
  std::vector<std::unique_ptr<FinishedRows>> rows;
  std::vector<const Problem*> problem_list;
  std::vector<const FinishedRows*> row_list;
  for (const Shape& shape : shapes) {
    problem_list.push_back(problems.emplace_back(std::make_unique<Problem>(shape, seed++)).get());
    row_list.push_back(rows.emplace_back(std::make_unique<FinishedRows>(shape, true)).get());
  }
  Decode decode(problem_list);
  decode.FinishInto(row_list);
  decode.Finish();
  RowErrors errors;
  std::string words;
  for (size_t i = 0; i < problem_list.size(); ++i) {
    const Shape& shape = problem_list[i]->shape();
    words += (i == 0 ? "" : "; ") + shape.Words();
    for (const Sample& sample : Samples(shape, kRowsLookedAt / 2)) {
      AddErrors(problem_list[i]->Oracle(sample.row, sample.head), row_list[i]->Out(sample.row, sample.head),
                row_list[i]->Lse(sample.row, sample.head), &errors);
    }
  }
  SayErrors("sm80 decode", words, errors);
}

}  // namespace

void CheckAccuracy() {
  for (const AttentionKernel& kernel : PrefillKernels()) {
    for (const int head_dim : kernel.head_dims) {
      uint64_t seed = 1;
      for (const Shape& shape : Shapes(head_dim)) CheckShape(kernel, shape, seed++);
    }
  }
  for (const int head_dim : DecodeHeadDims()) {
    uint64_t seed = 100;
    for (const std::vector<Shape>& shapes : DecodeShapes(head_dim)) CheckDecode(shapes, seed += 10);
  }
}

}  // namespace rondo::gpu_check
