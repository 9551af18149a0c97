#include "tests/kernels/cuda/emulated_decode.h"

#include <deque>

#include "base/check.h"
#include "kernels/cuda/attention/decode_mma.cuh"
#include "kernels/cuda/attention/fold_leaves.cuh"
#include "kernels/cuda/attention/nodes.cuh"
#include "tests/kernels/cuda/key_memory.h"

namespace rondo::cuda {
namespace {

// Memory of nodes [nodes, rows, q_heads, head_dim], NaN until written.
struct NodeMemory {
  NodeMemory(int64_t nodes, int64_t rows, int q_heads, int head_dim)
      : sums(rows * q_heads * head_dim),
        states(rows * q_heads),
        o(static_cast<size_t>(nodes * sums), kNaN),
        m(static_cast<size_t>(nodes * states), kNaN),
        l(static_cast<size_t>(nodes * states), kNaN),
        args{o.data(), m.data(), l.data(), sums, int64_t{q_heads} * head_dim, head_dim, states, q_heads} {}
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;
  void AddRanges(std::vector<simt::GlobalRange>* ranges, const char* name) const {
    for (const auto* x : {&o, &m, &l}) ranges->push_back({x->data(), x->size() * 4, true, name});
  }
  Node Get(NodeId id, int64_t index) const {
    const auto part = [&](const std::vector<float>& x, int64_t size) {
      return std::vector<float>(x.begin() + index * size, x.begin() + (index + 1) * size);
    };
    return {id, part(o, sums), part(m, states), part(l, states)};
  }
  int64_t sums, states;
  std::vector<float> o, m, l;
  NodeArgs args;
};

template <class C>
std::string Launch(const DecodeArgs& args, int64_t items, const simt::Options& options, simt::Report* report) {
  *report = simt::Launch(static_cast<int>(items), C::kThreads, DecodeBlock<C>::kSharedBytes, options,
                         [&] { DecodeMma<C>(args); });
  if (!report->ok()) return report->fault;
  const int64_t warps = args.rows * args.q_heads;
  return simt::Launch(static_cast<int>((warps * 32 + kFoldThreads - 1) / kFoldThreads), kFoldThreads, 0, options,
                      [&] { FoldLeaves<typename C::Element, C::kHeadDim, C::kBlockTokensOfTree>(args); })
      .fault;
}

std::string Dispatch(const Problem& p, const DecodeArgs& args, int64_t items, const simt::Options& options,
                     simt::Report* report) {
  if (p.type == ElementType::kBf16) {
    switch (p.head_dim) {
      case 64:
        return Launch<DecodeConfig<gpu::Bf16, 64, 3, kTestBlock>>(args, items, options, report);
#if !defined(RONDO_FEW_INSTANTIATIONS)
      case 80:
        return Launch<DecodeConfig<gpu::Bf16, 80, 3, kTestBlock>>(args, items, options, report);
      case 96:
        return Launch<DecodeConfig<gpu::Bf16, 96, 3, kTestBlock>>(args, items, options, report);
      case 128:
        return Launch<DecodeConfig<gpu::Bf16, 128, 3, kTestBlock>>(args, items, options, report);
      case 256:
        return Launch<DecodeConfig<gpu::Bf16, 256, 2, kTestBlock>>(args, items, options, report);
#endif
    }
  }
#if !defined(RONDO_FEW_INSTANTIATIONS)
  if (p.type == ElementType::kFp16 && p.head_dim == 64) {
    return Launch<DecodeConfig<gpu::Fp16, 64, 3, kTestBlock>>(args, items, options, report);
  }
#endif
  RONDO_CHECK(false);
  return {};
}

// The launch of a list of sequences, whose outputs or nodes the caller fills in.
class DecodeLaunch {
 public:
  DecodeLaunch(const std::vector<SequenceRun>& runs, const simt::Options& options) : runs_(runs), options_(options) {
    const Problem& first = *runs.front().problem;
    args_.q_heads = first.q_heads;
    args_.kv_heads = first.kv_heads;
    args_.causal = first.causal;
    args_.window = first.window;
    args_.score = {first.scale(), first.softcap, first.alibi ? runs.front().tensors->slopes.data() : nullptr};
    options_.memory.push_back(
        {runs.front().tensors->slopes.data(), runs.front().tensors->slopes.size() * 4, false, "slopes"});
    for (const SequenceRun& run : runs) Add(run);
  }

  DecodeSequence& sequence(size_t i) { return sequences_[i]; }
  BlockRange blocks(size_t i) const { return blocks_[i]; }
  void Allow(const std::vector<float>& x, const char* name) {
    options_.memory.push_back({x.data(), x.size() * 4, true, name});
  }
  simt::Options& options() { return options_; }

  simt::Report Run() {
    args_.sequences = sequences_.data();
    args_.count = static_cast<int32_t>(sequences_.size());
    args_.rows = rows_;
    options_.memory.push_back({sequences_.data(), sequences_.size() * sizeof(DecodeSequence), false, "sequences"});
    simt::Report report;
    report.fault = Dispatch(*runs_.front().problem, args_, items_, options_, &report);
    return report;
  }

 private:
  void Add(const SequenceRun& run) {
    const Problem& p = *run.problem;
    const BlockRange blocks = run.how.blocks.end < 0 ? AllBlocks(p) : run.how.blocks;
    keys_.emplace_back(p, *run.tensors, blocks, run.how.layout);
    leaves_.emplace_back(blocks.size(), p.rows, p.q_heads, p.head_dim);
    DecodeSequence s;
    s.query = {run.tensors->q.data(), int64_t{p.q_heads} * p.head_dim, p.head_dim, p.rows, p.first_position};
    s.keys = keys_.back().args();
    s.leaves = leaves_.back().args;
    s.visible_begin = p.visible_begin;
    s.visible_end = p.visible_end;
    s.first_item = items_;
    s.first_row = rows_;
    items_ += DecodeItems(p.rows, p.q_heads, p.kv_heads, blocks.size());
    rows_ += p.rows;
    keys_.back().AddRanges(&options_.memory);
    leaves_.back().AddRanges(&options_.memory, "leaves");
    options_.memory.push_back({run.tensors->q.data(), run.tensors->q.size() * 2, false, "q"});
    options_.memory.push_back({run.tensors->sinks.data(), run.tensors->sinks.size() * 4, false, "sinks"});
    sequences_.push_back(s);
    blocks_.push_back(blocks);
  }

  const std::vector<SequenceRun>& runs_;
  simt::Options options_;
  DecodeArgs args_;
  std::deque<KeyMemory> keys_;
  std::deque<NodeMemory> leaves_;
  std::vector<DecodeSequence> sequences_;
  std::vector<BlockRange> blocks_;
  int64_t items_ = 0;
  int64_t rows_ = 0;
};

OutputArgs Output(const Problem& p, const Tensors& t, Finished* finished) {
  const int64_t rows = static_cast<int64_t>(finished->lse.size()) / p.q_heads;
  finished->out.assign(static_cast<size_t>(rows * p.q_heads * p.head_dim), kNaN);
  return {finished->out.data(), true,      int64_t{p.q_heads} * p.head_dim,   p.head_dim,
          finished->lse.data(), p.q_heads, p.sinks ? t.sinks.data() : nullptr};
}

}  // namespace

std::vector<Finished> DecodeFinished(const std::vector<SequenceRun>& runs, const simt::Options& options) {
  DecodeLaunch launch(runs, options);
  std::vector<Finished> all(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    all[i].lse.assign(static_cast<size_t>(runs[i].problem->rows * runs[i].problem->q_heads), kNaN);
    launch.sequence(i).output = Output(*runs[i].problem, *runs[i].tensors, &all[i]);
    launch.Allow(all[i].out, "out");
    launch.Allow(all[i].lse, "lse");
  }
  const simt::Report report = launch.Run();
  for (Finished& finished : all) finished.report = report;
  return all;
}

std::vector<Nodes> DecodeNodes(const std::vector<SequenceRun>& runs, const simt::Options& options) {
  DecodeLaunch launch(runs, options);
  std::deque<NodeMemory> memory;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Problem& p = *runs[i].problem;
    memory.emplace_back(static_cast<int64_t>(DyadicNodes(launch.blocks(i), 0).size()), p.rows, p.q_heads, p.head_dim);
    memory.back().AddRanges(&launch.options().memory, "nodes");
    launch.sequence(i).nodes = memory.back().args;
  }
  const simt::Report report = launch.Run();
  std::vector<Nodes> all(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<NodeId> ids = DyadicNodes(launch.blocks(i), 0);
    all[i].report = report;
    for (size_t n = 0; n < ids.size(); ++n) all[i].nodes.push_back(memory[i].Get(ids[n], static_cast<int64_t>(n)));
  }
  return all;
}

namespace {

constexpr int kNodeHeadDim = 80;  // not a multiple of what a warp holds at once

NodeArgs ArgsOf(int q_heads, Node* node) {
  return {node->o.data(), node->m.data(), node->l.data(), 0, int64_t{q_heads} * kNodeHeadDim, kNodeHeadDim, 0, q_heads};
}

int NodeCtas(const Node& node) { return static_cast<int>((node.m.size() * 32 + kNodeThreads - 1) / kNodeThreads); }

}  // namespace

simt::Report MergeByKernel(int q_heads, Node* left, const Node& right) {
  Node copy = right;
  const NodeArgs a = ArgsOf(q_heads, left);
  const NodeArgs b = ArgsOf(q_heads, &copy);
  const auto rows = static_cast<int64_t>(left->m.size()) / q_heads;
  return simt::Launch(NodeCtas(right), kNodeThreads, 0, {},
                      [&] { MergeNodesKernel<kNodeHeadDim>(a, b, rows, q_heads); });
}

Finished FinishByKernel(const Problem& p, const Tensors& t, const Node& root) {
  Node copy = root;
  Finished finished;
  finished.lse.assign(root.m.size(), kNaN);
  const NodeArgs nodes = ArgsOf(p.q_heads, &copy);
  const OutputArgs output = Output(p, t, &finished);
  const auto rows = static_cast<int64_t>(root.m.size()) / p.q_heads;
  finished.report = simt::Launch(NodeCtas(root), kNodeThreads, 0, {},
                                 [&] { FinishNodesKernel<gpu::Bf16, kNodeHeadDim>(nodes, output, rows, p.q_heads); });
  return finished;
}

}  // namespace rondo::cuda
