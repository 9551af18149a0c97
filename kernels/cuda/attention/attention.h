// The CUDA attention kernels as plain functions: what the backend calls. Pointers are to device memory unless said
// otherwise; `stream` is a cudaStream_t. Nothing here waits for the GPU or allocates.
//
// Each returns an empty string, or what is wrong: an argument by name, value and limit, or the CUDA error.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/attention/args.h"
#include "kernels/cuda/attention/attend_kernel.h"
#include "kernels/cuda/attention/decode_args.h"
#include "kernels/cuda/attention/element_type.h"

namespace rondo::cuda {

// How Attend is launched on a GPU of so many multiprocessors, and the scratch it needs: some
// ctas * (log2(blocks) + 2) * rows of a tile * (head_dim + 8) floats, and where rows are many a few bytes for each
// tile.
struct AttendPlan {
  AttendKernel kernel = AttendKernel::kSm80;
  int ctas = 0;
  int64_t scratch_bytes = 0;
};
AttendPlan PlanAttend(AttendKernel kernel, int head_dim, int64_t rows, int q_heads, int64_t key_tokens,
                      int multiprocessors);

// Many rows against a run of blocks, to nodes or finished rows; args.scratch has the plan's bytes.
std::string Attend(ElementType type, int head_dim, const AttentionArgs& args, const AttendPlan& plan, void* stream);

// A few rows of each of several sequences, to nodes or finished rows. `items` is the total of DecodeItems.
std::string Decode(ElementType type, int head_dim, const DecodeArgs& args, int64_t items, void* stream);

// left <- merge(left, right), where right covers the blocks after left's; the first node of each is meant.
std::string MergeNodes(int head_dim, const NodeArgs& left, const NodeArgs& right, int64_t rows, int heads,
                       void* stream);

// Finished rows of a root. `type` is that of output.out where it is not float.
std::string FinishNodes(ElementType type, int head_dim, const NodeArgs& root, const OutputArgs& output, int64_t rows,
                        int heads, void* stream);

// Whether the current device, of that capability, can run the kernels of a head size: empty, or why not. Nothing is
// launched.
std::string CheckDevice(int capability, int head_dim);

// The checks of Attend: an empty string, or the field, its value and its limit.
std::string CheckAttention(int head_dim, const AttentionArgs& args);
std::string CheckDecode(int head_dim, const DecodeArgs& args, int64_t items);

}  // namespace rondo::cuda
