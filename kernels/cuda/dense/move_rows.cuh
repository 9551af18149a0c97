// Rows copied or added between matrices of different strides: the residual stream's sums, and what cuBLASLt left
// padded.
#pragma once

#include "kernels/cuda/dense/args.h"
#include "kernels/cuda/dense/primitives.cuh"

namespace rondo::cuda {

inline constexpr int kMoveThreads = 256;

// A thread takes one element at a time.
RONDO_KERNEL(kMoveThreads, 4)
MoveRows(RONDO_GRID_CONSTANT const MoveRowsArgs args) {
  const int64_t total = args.rows * args.cols;
  const int64_t step = int64_t{gpu::CtaCount()} * kMoveThreads;
  for (int64_t i = int64_t{gpu::CtaIndex()} * kMoveThreads + gpu::ThreadIndex(); i < total; i += step) {
    const int64_t row = i / args.cols;
    const int64_t col = i % args.cols;
    float* const to = args.to + row * args.to_stride + col;
    const float value = gpu::Load(args.from + row * args.from_stride + col);
    gpu::Store(to, args.add ? gpu::Load(to) + value : value);
  }
}

}  // namespace rondo::cuda
