// Launches of one prefill kernel over a Problem; used by the sections of gpu_check.
#pragma once

#include <memory>

#include "bench/gpu/attention_under_test.h"
#include "bench/gpu/device_memory.h"
#include "bench/gpu/fold.h"
#include "bench/gpu/problem.h"

namespace rondo::gpu_check {

bool Has(const AttentionKernel& kernel, int head_dim);

// A launch that can be repeated: owns the scratch memory. Poisoned at first, as nothing may depend on what is there.
class Launch {
 public:
  Launch(const AttentionKernel& kernel, const cuda::AttentionArgs& args, int head_dim);
  void Queue() const;   // ends the section where the launch is refused
  void Finish() const;  // Queue and wait

 private:
  const AttentionKernel& kernel_;
  cuda::AttentionArgs args_;
  int head_dim_;
  std::shared_ptr<DeviceArray<float>> scratch_;
};

// All rows of a problem, finished.
void AttendFinished(const AttentionKernel& kernel, const Problem& problem, const FinishedRows& to);

// Memory for nodes of a number of rows; poisoned until a kernel writes.
class NodeMemory {
 public:
  // Those that tile a run of blocks.
  NodeMemory(const Shape& shape, int64_t rows, BlockRange blocks) : NodeMemory(shape, rows, DyadicNodes(blocks, 0)) {}
  // One for each of so many blocks.
  NodeMemory(const Shape& shape, int64_t rows, int64_t leaves);
  cuda::NodeArgs Args() const;
  cuda::NodeArgs Args(size_t node) const;  // with this one first
  std::vector<Node> ToHost() const;
  void FromHost(const std::vector<Node>& nodes);

 private:
  NodeMemory(const Shape& shape, int64_t rows, std::vector<NodeId> ids);
  std::vector<NodeId> ids_;
  int64_t rows_;
  int q_heads_, head_dim_;
  DeviceArray<float> o_, m_, l_;
};

// The nodes of rows [begin, end) over a run of blocks.
std::vector<Node> AttendNodes(const AttentionKernel& kernel, const Problem& problem, int64_t begin, int64_t end,
                              BlockRange blocks);

}  // namespace rondo::gpu_check
