// The partials (m, l, o) of the rows a thread holds of its CTA's tile, in registers: growing over a block's keys,
// joining pending nodes, and leaving for memory. Used by AttendTile.
#pragma once

#include "kernels/cuda/attention/attend_config.h"
#include "kernels/cuda/attention/output.cuh"
#include "kernels/cuda/attention/row_place.cuh"
#include "kernels/cuda/attention/scores.cuh"
#include "kernels/cuda/attention/softmax.cuh"

namespace rondo::cuda {

template <class C, class Place>
class RowPartials {
 public:
  static constexpr int D = C::kValueDim;

  RONDO_DEVICE RowPartials(const AttentionArgs& args, const Place& place) : args_(args), place_(place) {}

  float o[C::kWarpTiles][D / 8][4];

  RONDO_DEVICE void Clear() {
    RONDO_UNROLL
    for (int i = 0; i < C::kWarpTiles; ++i) {
      rows_[i].Clear();
      RONDO_UNROLL
      for (int n = 0; n < D / 8; ++n) {
        RONDO_UNROLL
        for (int j = 0; j < 4; ++j) o[i][n][j] = 0;
      }
    }
  }

  // Scores of a tile of keys for 16-row tile i become probabilities, and m and l go on to the new maximum; `rescale` of
  // the two halves is what takes o there.
  template <int kTiles>
  RONDO_DEVICE void AddScores(int i, float factor, float (&s)[kTiles][4], float (&rescale)[2]) {
    RunningRows& rows = rows_[i];
    RONDO_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float m = RaisedMax(rows.m[half], QuadMax(LargestScore(s, half)), factor);
      rescale[half] = PowerOfTwo(rows.m[half] - m);
      rows.m[half] = m;
      float l = rows.l[half];
      RONDO_UNROLL
      for (int tile = 0; tile < kTiles; tile += 8) {  // 64 keys at a time
        float groups[4];
        RONDO_UNROLL
        for (int group = 0; group < 4; ++group) groups[group] = Exponentials(s, tile + 2 * group, half, factor, m);
        l = RaisedSum(l, tile == 0 ? rescale[half] : 1.0f, groups);
      }
      rows.l[half] = l;
    }
  }

  RONDO_DEVICE void Rescale(int i, const float (&rescale)[2]) {
    // A maximum that is an integer seldom rises, and to multiply by 1 changes nothing.
    if (!gpu::WarpAny(rescale[0] != 1.0f || rescale[1] != 1.0f)) return;
    RONDO_UNROLL
    for (int n = 0; n < D / 8; ++n) {
      RONDO_UNROLL
      for (int j = 0; j < 4; ++j) o[i][n][j] *= rescale[j / 2];
    }
  }

  // After the last keys of a block: l becomes the row's.
  RONDO_DEVICE void EndBlock() {
    RONDO_UNROLL
    for (int i = 0; i < C::kWarpTiles; ++i) {
      RONDO_UNROLL
      for (int half = 0; half < 2; ++half) rows_[i].l[half] = QuadSum(rows_[i].l[half]);
    }
  }

  // A block is done and `slots` nodes are pending: merges as many as said, the last first, with it. The result is kept
  // as the last pending node, or is here where nothing of the node is left to come.
  RONDO_DEVICE void Fold(int slots, int merges, bool last) {
    for (; merges > 0; --merges) MergePending(--slots);
    if (!last) KeepPending(slots);
  }

  // Writes node `index` of the run.
  RONDO_DEVICE void Store(int index) {
    ForEachRow([&](int i, int half, int64_t row) {
      const NodeWriter node(args_.nodes, index, row, place_.head());
      if (place_.part() == 0 && gpu::LaneIndex() % 4 == 0) node.StoreState(rows_[i].m[half], rows_[i].l[half]);
      RONDO_UNROLL
      for (int n = 0; n < D / 8; ++n)
        node.StoreSums(place_.part() * D + LaneColumn(n, 0), o[i][n][2 * half], o[i][n][2 * half + 1]);
    });
  }

  // Writes finished rows.
  RONDO_DEVICE void Finish() {
    const float* sink = args_.output.sinks != nullptr ? args_.output.sinks + place_.head() : nullptr;
    ForEachRow([&](int i, int half, int64_t row) {
      const FinishedRow finished(rows_[i].m[half], rows_[i].l[half], sink);
      const RowWriter<typename C::Element> out(args_.output, row, place_.head());
      if (place_.part() == 0 && gpu::LaneIndex() % 4 == 0) out.StoreLse(finished.lse);
      RONDO_UNROLL
      for (int n = 0; n < D / 8; ++n) {
        out.StorePair(place_.part() * D + LaneColumn(n, 0), o[i][n][2 * half] * finished.inverse,
                      o[i][n][2 * half + 1] * finished.inverse);
      }
    });
  }

 protected:
  // Puts the partials into a pending node of this CTA; each thread reads back what it wrote, so no barrier is needed.
  RONDO_DEVICE void KeepPending(int slot) {
    gpu::Float4* to = Pending(slot);
    RONDO_UNROLL
    for (int i = 0; i < C::kWarpTiles; ++i) {
      gpu::Store(to, {rows_[i].m[0], rows_[i].l[0], rows_[i].m[1], rows_[i].l[1]});
      to += C::kRowThreads;
      RONDO_UNROLL
      for (int n = 0; n < D / 8; ++n, to += C::kRowThreads) {
        gpu::Store(to, {o[i][n][0], o[i][n][1], o[i][n][2], o[i][n][3]});
      }
    }
  }

  // These partials become those of the pending node, on the left, merged with them.
  RONDO_DEVICE void MergePending(int slot) {
    const gpu::Float4* from = Pending(slot);
    RONDO_UNROLL
    for (int i = 0; i < C::kWarpTiles; ++i) {
      const gpu::Float4 left = gpu::Load(from);
      from += C::kRowThreads;
      const MergedRow merged[2] = {MergedRow(left.x, left.y, rows_[i].m[0], rows_[i].l[0]),
                                   MergedRow(left.z, left.w, rows_[i].m[1], rows_[i].l[1])};
      RONDO_UNROLL
      for (int half = 0; half < 2; ++half) {
        rows_[i].m[half] = merged[half].m;
        rows_[i].l[half] = merged[half].l;
      }
      RONDO_UNROLL
      for (int n = 0; n < D / 8; ++n, from += C::kRowThreads) {
        if (n % 4 == 0) gpu::WarpSync();  // no more than four loads ahead: o leaves few registers free
        const gpu::Float4 sums = gpu::Load(from);
        o[i][n][0] = merged[0].Join(sums.x, o[i][n][0]);
        o[i][n][1] = merged[0].Join(sums.y, o[i][n][1]);
        o[i][n][2] = merged[1].Join(sums.z, o[i][n][2]);
        o[i][n][3] = merged[1].Join(sums.w, o[i][n][3]);
      }
    }
  }

  // Calls f(16-row tile, half, row) for the rows this lane holds and the tensor has.
  template <class F>
  RONDO_DEVICE void ForEachRow(F f) {
    RONDO_UNROLL
    for (int i = 0; i < C::kWarpTiles; ++i) {
      RONDO_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = (gpu::Opaque(gpu::ThreadIndex()) / 32 * C::kWarpTiles + i) * 16 + LaneRow(half);
        if (row < place_.valid_rows()) f(i, half, place_.first_row() + row);
      }
    }
  }

  // This thread's first Float4 of a pending node; its others follow at the distance of one for each thread.
  RONDO_DEVICE gpu::Float4* Pending(int slot) const {
    const int64_t node = int64_t{slot} * gpu::CtaCount() + gpu::CtaIndex();
    return reinterpret_cast<gpu::Float4*>(args_.scratch + node * C::kPendingFloats) + gpu::Opaque(gpu::ThreadIndex());
  }

  const AttentionArgs& args_;
  const Place place_;  // part 0 stores m, l and lse
  RunningRows rows_[C::kWarpTiles];
};

}  // namespace rondo::cuda
