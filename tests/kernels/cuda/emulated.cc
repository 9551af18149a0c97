#include "tests/kernels/cuda/emulated.h"

#include "tests/kernels/cuda/key_memory.h"

namespace rondo::cuda {
namespace {

// Everything about a run but where its results go.
struct Prepared {
  Prepared(const Problem& p, const Tensors& t, const HowToRun& run)
      : row_begin(run.row_begin),
        rows((run.row_end < 0 ? p.rows : run.row_end) - run.row_begin),
        blocks(run.blocks.end < 0 ? AllBlocks(p) : run.blocks),
        keys(p, t, blocks, run.layout),
        options(run.options) {
    args.q_heads = p.q_heads;
    args.kv_heads = p.kv_heads;
    args.mask = {p.causal, p.window, p.visible_begin, p.visible_end};
    args.score = {p.scale(), p.softcap, p.alibi ? t.slopes.data() : nullptr};
    const int64_t row = int64_t{p.q_heads} * p.head_dim;
    // Exactly the rows of the run, so that reading past them is found out.
    q.assign(t.q.begin() + row_begin * row, t.q.begin() + (row_begin + rows) * row);
    args.query = {q.data(), row, p.head_dim, rows, p.first_position + row_begin};
    args.keys = keys.args();
    options.memory.push_back({q.data(), q.size() * 2, false, "q"});
    options.memory.push_back({t.slopes.data(), t.slopes.size() * 4, false, "slopes"});
    options.memory.push_back({t.sinks.data(), t.sinks.size() * 4, false, "sinks"});
    keys.AddRanges(&options.memory);
  }

  int64_t row_begin, rows;
  BlockRange blocks;
  KeyMemory keys;
  std::vector<uint16_t> q;
  simt::Options options;
  AttentionArgs args;
};

}  // namespace

BlockRange AllBlocks(const Problem& problem) { return {0, (problem.tokens + kTestBlock - 1) / kTestBlock}; }

Finished AttendFinished(const Problem& p, const Tensors& t, const HowToRun& run) {
  Prepared prepared(p, t, run);
  Finished finished;
  finished.out.assign(static_cast<size_t>(prepared.rows * p.q_heads * p.head_dim), kNaN);
  finished.lse.assign(static_cast<size_t>(prepared.rows * p.q_heads), kNaN);
  OutputArgs& output = prepared.args.output;
  output.out = finished.out.data();
  output.out_is_float = true;
  output.row_stride = int64_t{p.q_heads} * p.head_dim;
  output.head_stride = p.head_dim;
  output.lse = finished.lse.data();
  output.lse_row_stride = p.q_heads;
  output.sinks = p.sinks ? t.sinks.data() : nullptr;
  prepared.options.memory.push_back({finished.out.data(), finished.out.size() * 4, true, "out"});
  prepared.options.memory.push_back({finished.lse.data(), finished.lse.size() * 4, true, "lse"});
  finished.report = LaunchAttend(p, run, prepared.options, prepared.blocks.size(), prepared.args);
  return finished;
}

Nodes AttendNodes(const Problem& p, const Tensors& t, const HowToRun& run) {
  Prepared prepared(p, t, run);
  const std::vector<NodeId> ids = DyadicNodes(prepared.blocks, 0);
  const size_t states = static_cast<size_t>(prepared.rows * p.q_heads);
  const size_t sums = states * static_cast<size_t>(p.head_dim);
  std::vector<float> o(ids.size() * sums, kNaN), m(ids.size() * states, kNaN), l(ids.size() * states, kNaN);
  NodeArgs& nodes = prepared.args.nodes;
  nodes = {o.data(),
           m.data(),
           l.data(),
           static_cast<int64_t>(sums),
           int64_t{p.q_heads} * p.head_dim,
           p.head_dim,
           static_cast<int64_t>(states),
           p.q_heads};
  prepared.options.memory.push_back({o.data(), o.size() * 4, true, "o"});
  prepared.options.memory.push_back({m.data(), m.size() * 4, true, "m"});
  prepared.options.memory.push_back({l.data(), l.size() * 4, true, "l"});
  Nodes result;
  result.report = LaunchAttend(p, run, prepared.options, prepared.blocks.size(), prepared.args);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto part = [&](const std::vector<float>& x, size_t size) {
      return std::vector<float>(x.begin() + i * size, x.begin() + (i + 1) * size);
    };
    result.nodes.push_back({ids[i], part(o, sums), part(m, states), part(l, states)});
  }
  return result;
}

}  // namespace rondo::cuda
