// The partial (m, l, o) of one row and head, held by a warp: read from a node, merged, written to a node or finished.
// Used by the kernels that work on nodes alone.
#pragma once

#include "kernels/cuda/attention/output.cuh"
#include "kernels/cuda/attention/softmax.cuh"

namespace rondo::cuda {

template <int D>
struct NodePartial {
  static constexpr int kPairs = (D / 2 + 31) / 32;  // a lane has every 32nd pair of columns
  float m, l;
  float o[kPairs][2];

  RONDO_DEVICE static int Column(int pair) { return (pair * 32 + gpu::LaneIndex()) * 2; }

  RONDO_DEVICE void Clear() {
    m = kEmptyMax;
    l = 0;
    RONDO_UNROLL
    for (int i = 0; i < kPairs; ++i) o[i][0] = o[i][1] = 0;
  }

  RONDO_DEVICE void Load(const NodeArgs& nodes, int64_t node, int64_t row, int head) {
    const int64_t state = node * nodes.ml_node_stride + row * nodes.ml_row_stride + head;
    m = gpu::Load(nodes.m + state);
    l = gpu::Load(nodes.l + state);
    const float* sums = nodes.o + node * nodes.o_node_stride + row * nodes.o_row_stride + head * nodes.o_head_stride;
    RONDO_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      if (Column(i) >= D) break;
      const auto pair = gpu::Load(reinterpret_cast<const gpu::Float2*>(sums + Column(i)));
      o[i][0] = pair.x;
      o[i][1] = pair.y;
    }
  }

  RONDO_DEVICE void Store(const NodeArgs& nodes, int64_t node, int64_t row, int head) const {
    const NodeWriter writer(nodes, node, row, head);
    if (gpu::LaneIndex() == 0) writer.StoreState(m, l);
    RONDO_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      if (Column(i) < D) writer.StoreSums(Column(i), o[i][0], o[i][1]);
    }
  }

  // These become the partials of this node, on the left, merged with `right`.
  RONDO_DEVICE void Merge(const NodePartial& right) {
    const MergedRow merged(m, l, right.m, right.l);
    m = merged.m;
    l = merged.l;
    RONDO_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      o[i][0] = merged.Join(o[i][0], right.o[i][0]);
      o[i][1] = merged.Join(o[i][1], right.o[i][1]);
    }
  }

  template <class Element>
  RONDO_DEVICE void Finish(const OutputArgs& output, int64_t row, int head) const {
    const FinishedRow finished(m, l, output.sinks != nullptr ? output.sinks + head : nullptr);
    const RowWriter<Element> writer(output, row, head);
    if (gpu::LaneIndex() == 0) writer.StoreLse(finished.lse);
    RONDO_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      if (Column(i) < D) writer.StorePair(Column(i), o[i][0] * finished.inverse, o[i][1] * finished.inverse);
    }
  }
};

}  // namespace rondo::cuda
