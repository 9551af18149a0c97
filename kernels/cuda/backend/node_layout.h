// How CudaAttention lays out nodes on the device: one after the other, each in one piece, as the ring keeps and sends
// them.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/args.h"
#include "rondo/attention_kernels.h"

namespace rondo::cuda {

inline int64_t NodeFloats(const AttentionShape& shape, int64_t count) {
  return count * shape.q_heads * (int64_t{shape.head_dim} + 2);
}

// Of a node: o [count, q_heads, head_dim], m and l [count, q_heads].
inline NodeArgs NodesAt(const AttentionShape& shape, int64_t count, float* floats) {
  const int64_t states = count * shape.q_heads;
  NodeArgs args;
  args.o = floats;
  args.m = args.o + states * shape.head_dim;
  args.l = args.m + states;
  args.o_node_stride = args.ml_node_stride = NodeFloats(shape, count);
  args.o_row_stride = int64_t{shape.q_heads} * shape.head_dim;
  args.o_head_stride = shape.head_dim;
  args.ml_row_stride = shape.q_heads;
  return args;
}

// Whether a node lies like that.
inline bool InOnePiece(const AttentionShape& shape, int64_t count, const PartialNode& node) {
  const int64_t states = count * shape.q_heads;
  return node.m == node.o + states * shape.head_dim && node.l == node.m + states;
}

}  // namespace rondo::cuda
