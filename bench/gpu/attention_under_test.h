// The attention kernels as gpu_check sees them: under_test.cc alone knows how they are launched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/attention/args.h"

namespace rondo::gpu_check {

// Tokens of a canonical block of these kernels.
int64_t BlockTokens();

struct AttentionKernel {
  const char* name;
  std::vector<int> head_dims;  // bf16
  // Floats of args.scratch for a launch of this shape.
  int64_t (*scratch_floats)(const cuda::AttentionArgs& args, int head_dim);
  // Queues the launch on the default stream; empty, or what is wrong.
  std::string (*launch)(const cuda::AttentionArgs& args, int head_dim);
  bool decodes_alike = true;  // its rows have the bits of the decode kernel's
};

// Those this build has and this device can run.
std::vector<AttentionKernel> PrefillKernels();

}  // namespace rondo::gpu_check
