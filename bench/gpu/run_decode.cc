#include "bench/gpu/run_decode.h"

#include <algorithm>

#include "bench/gpu/lines.h"

namespace rondo::gpu_check {

BlockRange DecodeBlocks(const Problem& problem) {
  return {0, (problem.shape().tokens + DecodeBlockTokens() - 1) / DecodeBlockTokens()};
}

Decode::Decode(const std::vector<const Problem*>& problems) {
  Start(*problems.front());
  for (const Problem* problem : problems) Add(*problem, 0, problem->shape().rows, DecodeBlocks(*problem));
}

Decode::Decode(const Problem& problem, int64_t begin, int64_t end)
    : Decode(problem, begin, end, DecodeBlocks(problem)) {}

Decode::Decode(const Problem& problem, int64_t begin, int64_t end, BlockRange blocks) {
  Start(problem);
  Add(problem, begin, end, blocks);
}

void Decode::Start(const Problem& problem) {
  args_.q_heads = problem.shape().q_heads;
  args_.kv_heads = problem.shape().kv_heads;
  args_.causal = problem.shape().mask.causal;
  args_.window = problem.shape().mask.window;
  args_.score = problem.Args().score;
}

void Decode::Add(const Problem& problem, int64_t begin, int64_t end, BlockRange blocks) {
  const Shape& shape = problem.shape();
  const cuda::AttentionArgs whole = problem.Args(begin, end, 0, problem.blocks());
  leaves_.push_back(std::make_unique<NodeMemory>(shape, end - begin, blocks.size()));
  cuda::DecodeSequence sequence;
  sequence.query = whole.query;
  sequence.keys = whole.keys;
  const int64_t first_key = blocks.begin * DecodeBlockTokens();
  sequence.keys.k = static_cast<const uint16_t*>(whole.keys.k) + first_key * whole.keys.row_stride;
  sequence.keys.v = static_cast<const uint16_t*>(whole.keys.v) + first_key * whole.keys.row_stride;
  sequence.keys.first_block = blocks.begin;
  sequence.keys.tokens = std::min(shape.tokens, blocks.end * DecodeBlockTokens()) - first_key;
  sequence.leaves = leaves_.back()->Args();
  sequence.visible_begin = shape.mask.visible_begin;
  sequence.visible_end = shape.mask.visible_end;
  sequence.first_item = items_;
  sequence.first_row = args_.rows;
  items_ += cuda::DecodeItems(end - begin, shape.q_heads, shape.kv_heads, blocks.size());
  args_.rows += end - begin;
  ++args_.count;
  host_.push_back(sequence);
  problems_.push_back(&problem);
}

void Decode::FinishInto(const std::vector<const FinishedRows*>& to) {
  for (size_t i = 0; i < host_.size(); ++i) {
    host_[i].output = to[i]->Args();
    host_[i].output.sinks = problems_[i]->Args().output.sinks;
  }
  Upload();
}

void Decode::NodesInto(const std::vector<const NodeMemory*>& to) {
  for (size_t i = 0; i < host_.size(); ++i) {
    host_[i].output = {};
    host_[i].nodes = to[i]->Args();
  }
  Upload();
}

void Decode::Upload() {
  sequences_ = std::make_unique<DeviceArray<cuda::DecodeSequence>>(host_);
  args_.sequences = sequences_->get();
}

void Decode::Queue() const {
  const int head_dim = problems_.front()->shape().head_dim;
  if (const std::string wrong = LaunchDecode(args_, items_, head_dim); !wrong.empty()) {
    Fail("decode, D " + std::to_string(head_dim) + ": " + wrong);
  }
}

void Decode::Finish() const {
  Queue();
  RequireFinished("decode, D " + std::to_string(problems_.front()->shape().head_dim));
}

}  // namespace rondo::gpu_check
