// Rows of a GGUF weight as float32 or rounded to bf16 or fp16: whole weights at load, and embedding lookup by token id.
// The float values are those of DenseKernels::DequantiseRow.
#pragma once

#include "kernels/cuda/dense/quads.cuh"
#include "kernels/cuda/dense/weight_blocks.cuh"

namespace rondo::cuda {

inline constexpr int kDequantiseThreads = 256;

// A thread makes four elements at a time.
template <WeightType kType, class Out>
RONDO_KERNEL(kDequantiseThreads, 4)
Dequantise(RONDO_GRID_CONSTANT const DequantiseArgs args) {
  const int64_t quads = args.cols / 4;
  const int64_t total = args.rows * quads;
  const int64_t step = int64_t{gpu::CtaCount()} * kDequantiseThreads;
  for (int64_t i = int64_t{gpu::CtaIndex()} * kDequantiseThreads + gpu::ThreadIndex(); i < total; i += step) {
    const int64_t out_row = i / quads;
    const int64_t col = i % quads * 4;
    const int64_t row = args.ids != nullptr ? gpu::Load(args.ids + out_row) : out_row;
    Quad quad;
    RONDO_UNROLL
    for (int j = 0; j < 4; ++j) quad.v[j] = WeightAt<kType>(args.weight + row * args.row_bytes, col + j);
    Quads<Out>::Store(static_cast<typename Quads<Out>::Memory*>(args.out) + out_row * args.cols + col, quad);
  }
}

}  // namespace rondo::cuda
