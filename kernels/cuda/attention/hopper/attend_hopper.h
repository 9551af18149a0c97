// The sm_90a prefill kernel as plain functions; called by attention.cu. Head size 64, 128 or 256.
#pragma once

#include <string>

#include "kernels/cuda/attention/args.h"

namespace rondo::cuda {

// Empty, or what is wrong.
std::string AttendHopperBf16(int head_dim, const AttentionArgs& args, int ctas, void* stream);
std::string AttendHopperFp16(int head_dim, const AttentionArgs& args, int ctas, void* stream);

// Whether this driver encodes the maps that a launch of that head size would need: empty, or what is wrong.
std::string CheckHopperMaps(int head_dim);

}  // namespace rondo::cuda
