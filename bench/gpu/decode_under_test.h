// The decode kernels and the kernels on nodes as gpu_check sees them: the one place that knows how they are launched.
// Each function queues on the default stream and returns empty, or what is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/attention/decode_args.h"

namespace rondo::gpu_check {

// Tokens of decode's canonical blocks, which differ from those of prefill.
int64_t DecodeBlockTokens();

// bf16.
std::vector<int> DecodeHeadDims();

// `items`: the sum of DecodeItems over the sequences. Attends, then folds.
std::string LaunchDecode(const cuda::DecodeArgs& args, int64_t items, int head_dim);

std::string LaunchMerge(const cuda::NodeArgs& left, const cuda::NodeArgs& right, int64_t rows, int heads, int head_dim);
std::string LaunchFinish(const cuda::NodeArgs& root, const cuda::OutputArgs& output, int64_t rows, int heads,
                         int head_dim);

}  // namespace rondo::gpu_check
