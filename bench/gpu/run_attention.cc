#include "bench/gpu/run_attention.h"

#include <algorithm>
#include <utility>

#include "bench/gpu/lines.h"

namespace rondo::gpu_check {
namespace {

size_t Product(size_t nodes, int64_t rows, int64_t heads, int64_t width) {
  return nodes * static_cast<size_t>(rows * heads * width);
}

}  // namespace

bool Has(const AttentionKernel& kernel, int head_dim) {
  return std::find(kernel.head_dims.begin(), kernel.head_dims.end(), head_dim) != kernel.head_dims.end();
}

Launch::Launch(const AttentionKernel& kernel, const cuda::AttentionArgs& args, int head_dim)
    : kernel_(kernel), args_(args), head_dim_(head_dim) {
  scratch_ = std::make_shared<DeviceArray<float>>(static_cast<size_t>(kernel.scratch_floats(args, head_dim)));
  scratch_->Poison();
  args_.scratch = scratch_->get();
}

void Launch::Queue() const {
  if (const std::string wrong = kernel_.launch(args_, head_dim_); !wrong.empty()) {
    Fail(std::string(kernel_.name) + ", D " + std::to_string(head_dim_) + ": " + wrong);
  }
}

void Launch::Finish() const {
  Queue();
  RequireFinished(std::string(kernel_.name) + ", D " + std::to_string(head_dim_));
}

void AttendFinished(const AttentionKernel& kernel, const Problem& problem, const FinishedRows& to) {
  cuda::AttentionArgs args = problem.Args();
  const float* sinks = args.output.sinks;
  args.output = to.Args();
  args.output.sinks = sinks;
  Launch(kernel, args, problem.shape().head_dim).Finish();
}

NodeMemory::NodeMemory(const Shape& shape, int64_t rows, int64_t leaves)
    : NodeMemory(shape, rows, [leaves] {
        std::vector<NodeId> ids;
        for (int64_t i = 0; i < leaves; ++i) ids.push_back({0, i});
        return ids;
      }()) {}

NodeMemory::NodeMemory(const Shape& shape, int64_t rows, std::vector<NodeId> ids)
    : ids_(std::move(ids)),
      rows_(rows),
      q_heads_(shape.q_heads),
      head_dim_(shape.head_dim),
      o_(Product(ids_.size(), rows, q_heads_, head_dim_)),
      m_(Product(ids_.size(), rows, q_heads_, 1)),
      l_(m_.count()) {
  o_.Poison();
  m_.Poison();
  l_.Poison();
}

cuda::NodeArgs NodeMemory::Args() const {
  cuda::NodeArgs args;
  args.o = o_.get();
  args.m = m_.get();
  args.l = l_.get();
  args.o_head_stride = head_dim_;
  args.o_row_stride = int64_t{q_heads_} * head_dim_;
  args.o_node_stride = args.o_row_stride * rows_;
  args.ml_row_stride = q_heads_;
  args.ml_node_stride = rows_ * q_heads_;
  return args;
}

cuda::NodeArgs NodeMemory::Args(size_t node) const {
  cuda::NodeArgs args = Args();
  args.o += static_cast<int64_t>(node) * args.o_node_stride;
  args.m += static_cast<int64_t>(node) * args.ml_node_stride;
  args.l += static_cast<int64_t>(node) * args.ml_node_stride;
  return args;
}

void NodeMemory::FromHost(const std::vector<Node>& nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const cuda::NodeArgs at = Args(i);
    const auto copy = [](float* to, const std::vector<float>& from) {
      Require(cudaMemcpy(to, from.data(), from.size() * sizeof(float), cudaMemcpyHostToDevice), "nodes to the device");
    };
    copy(at.o, nodes[i].o);
    copy(at.m, nodes[i].m);
    copy(at.l, nodes[i].l);
  }
}

std::vector<Node> NodeMemory::ToHost() const {
  std::vector<Node> nodes;
  const size_t states = Product(1, rows_, q_heads_, 1), sums = states * static_cast<size_t>(head_dim_);
  for (size_t i = 0; i < ids_.size(); ++i) {
    nodes.push_back({ids_[i], o_.ToHost(i * sums, sums), m_.ToHost(i * states, states), l_.ToHost(i * states, states)});
  }
  return nodes;
}

std::vector<Node> AttendNodes(const AttentionKernel& kernel, const Problem& problem, int64_t begin, int64_t end,
                              BlockRange blocks) {
  const NodeMemory nodes(problem.shape(), end - begin, blocks);
  cuda::AttentionArgs args = problem.Args(begin, end, blocks.begin, blocks.end);
  args.output = {};
  args.nodes = nodes.Args();
  Launch(kernel, args, problem.shape().head_dim).Finish();
  return nodes.ToHost();
}

}  // namespace rondo::gpu_check
