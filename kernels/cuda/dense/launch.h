// Starts the dense kernels on a CUDA stream; called by the backend's dense layers. No CUDA type appears here: a stream
// is the cudaStream_t as void*, and what is returned is empty or says what is wrong. Starting is all that is reported;
// what goes wrong on the device shows at the next synchronisation.
//
// All functions may be captured into a CUDA graph. Sizes and combinations of types that a kernel does not take are bugs
// of the caller and end the process. The current device is the stream's.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/dense/args.h"

namespace rondo::cuda {

// Types of (addend, out): (float, any), or the same 16-bit type twice.
std::string LaunchRmsNorm(const RmsNormArgs& args, RowType addend, RowType out, void* stream);

std::string LaunchRope(const RopeArgs& args, RowType type, RopePairing pairing, void* stream);

// Types of (in, out) as for RMS norm.
std::string LaunchGatedActivation(const GatedActivationArgs& args, RowType in, RowType out, GateKind kind,
                                  void* stream);

std::string LaunchMoveRows(const MoveRowsArgs& args, void* stream);

// Any weight type; out float or bf16.
std::string LaunchDequantise(const DequantiseArgs& args, WeightType type, RowType out, void* stream);

// ranks_out [rows]: the likeliest token of each row; see ranked_token.h.
std::string LaunchArgmax(const float* logits /* [rows, count] */, int64_t rows, int32_t count, uint64_t* ranks_out,
                         void* stream);

// ranks_out [rows, k]: the likeliest k <= kMostTopK tokens of each row, in order. Scratch on 8 bytes.
int64_t TopKScratchBytes(int64_t rows, int32_t count, int32_t k);
std::string LaunchTopK(const float* logits /* [rows, count] */, int64_t rows, int32_t count, int32_t k, void* scratch,
                       uint64_t* ranks_out, void* stream);

// Types that CanPack: Q4_1, Q8_0, Q4_K.
int64_t PackedBytes(WeightType type, int32_t rows, int32_t cols);
std::string LaunchPackWeight(const PackArgs& args, WeightType type, void* stream);

// x is float or bf16. Its bits differ from those of LtMatMul for the same row: which of the two serves a row must
// follow from the row, never from how many there are.
std::string LaunchMatMulFewRows(const MatMulFewRowsArgs& args, WeightType type, RowType x, void* stream);

}  // namespace rondo::cuda
