// Decode launches over Problems, one sequence each; used by the sections of gpu_check.
#pragma once

#include <memory>
#include <vector>

#include "bench/gpu/decode_under_test.h"
#include "bench/gpu/device_memory.h"
#include "bench/gpu/run_attention.h"

namespace rondo::gpu_check {

// Decode's blocks that hold a problem's keys.
BlockRange DecodeBlocks(const Problem& problem);

// One launch over several sequences with equal heads, masks and scores, from whose first the launch takes them.
class Decode {
 public:
  explicit Decode(const std::vector<const Problem*>& problems);
  // Rows [begin, end) of one problem, over all its keys or a run of decode's blocks.
  Decode(const Problem& problem, int64_t begin, int64_t end);
  Decode(const Problem& problem, int64_t begin, int64_t end, BlockRange blocks);
  // Rows finished into `to`, one for each sequence.
  void FinishInto(const std::vector<const FinishedRows*>& to);
  // Or nodes.
  void NodesInto(const std::vector<const NodeMemory*>& to);
  void Queue() const;  // ends the section where the launch is refused
  void Finish() const;

 private:
  void Start(const Problem& problem);
  void Add(const Problem& problem, int64_t begin, int64_t end, BlockRange blocks);
  void Upload();

  std::vector<const Problem*> problems_;
  std::vector<std::unique_ptr<NodeMemory>> leaves_;
  std::vector<cuda::DecodeSequence> host_;
  std::unique_ptr<DeviceArray<cuda::DecodeSequence>> sequences_;
  cuda::DecodeArgs args_;
  int64_t items_ = 0;
};

}  // namespace rondo::gpu_check
