// Where results go: partial nodes in the exchange format, and finished rows. Used by every attention kernel.
#pragma once

#include "kernels/cuda/attention/args.h"
#include "kernels/cuda/attention/softmax.cuh"

namespace rondo::cuda {

// One row and head of one node.
class NodeWriter {
 public:
  RONDO_DEVICE NodeWriter(const NodeArgs& nodes, int64_t node, int64_t row, int head)
      : o_(nodes.o + node * nodes.o_node_stride + row * nodes.o_row_stride + head * nodes.o_head_stride),
        m_(nodes.m + node * nodes.ml_node_stride + row * nodes.ml_row_stride + head),
        l_(nodes.l + node * nodes.ml_node_stride + row * nodes.ml_row_stride + head) {}

  RONDO_DEVICE void StoreState(float m, float l) const {
    gpu::Store(m_, m);
    gpu::Store(l_, Canonical(l));
  }
  // Two neighbouring columns.
  RONDO_DEVICE void StoreSums(int column, float first, float second) const {
    gpu::Store(reinterpret_cast<gpu::Float2*>(o_ + column), {Canonical(first), Canonical(second)});
  }

 private:
  float* o_;
  float* m_;
  float* l_;
};

// One finished row and head.
template <class Element>
class RowWriter {
 public:
  RONDO_DEVICE RowWriter(const OutputArgs& output, int64_t row, int head)
      : output_(output),
        offset_(row * output.row_stride + head * output.head_stride),
        lse_(output.lse != nullptr ? output.lse + row * output.lse_row_stride + head : nullptr) {}

  RONDO_DEVICE void StoreLse(float lse) const {
    if (lse_ != nullptr) gpu::Store(lse_, Canonical(lse));
  }
  // Two neighbouring columns.
  RONDO_DEVICE void StorePair(int column, float first, float second) const {
    first = Canonical(first);
    second = Canonical(second);
    if (output_.out_is_float) {
      gpu::Store(reinterpret_cast<gpu::Float2*>(static_cast<float*>(output_.out) + offset_ + column), {first, second});
    } else {
      gpu::Store(reinterpret_cast<uint32_t*>(static_cast<uint16_t*>(output_.out) + offset_ + column),
                 gpu::Pack<Element>(first, second));
    }
  }

 private:
  const OutputArgs& output_;
  int64_t offset_;
  float* lse_;
};

}  // namespace rondo::cuda
