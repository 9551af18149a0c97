// The q8 matmul of an instruction set: the decode product for few rows, the panel product over `Multiply` for many.
#pragma once

#include "kernels/cpu/dense/block_reader.h"
#include "kernels/cpu/dense/dense_ops.h"

namespace rondo {

// All rows of the tile for its tokens, at most kFewRows. matvec_q8.cc; needs AVX2, FMA and F16C.
void MatVecQ8(const MatMulTile& tile);

namespace {

template <typename Multiply>
void MatMulQ8(const MatMulTile& tile, std::byte* scratch) {
  if (tile.token_end - tile.token_begin <= kFewRows) return MatVecQ8(tile);
  VisitReader(tile.weight->type, [&]<typename R>() { Multiply::template MatMul<R>(tile, scratch); });
}

}  // namespace
}  // namespace rondo
