// Partials of a consumer's rows, whose pending nodes are merged where they lie. Used by the sm_90a kernel.
#pragma once

#include "kernels/cuda/attention/row_partials.cuh"

namespace rondo::cuda {

// wgmma wants its sums in fixed neighbouring registers, up to 128 of them. To merge into registers makes the compiler
// move them all, and spill; so what is merged is memory, and comes back to registers when its node is complete. That
// happens once for a block of kBlockTokens keys, while the other group multiplies. The bits are those of RowPartials.
template <class C, class Place>
class MemoryPartials : public RowPartials<C, Place> {
 public:
  using RowPartials<C, Place>::RowPartials;

  RONDO_DEVICE void Fold(int slots, int merges, bool last) {
    if (merges == 0) {
      if (!last) this->KeepPending(slots);
      return;
    }
    MergeInto(slots - 1, [this](int n, const gpu::Float4*) {
      const float(&o)[4] = this->o[0][n];
      return gpu::Float4{o[0], o[1], o[2], o[3]};
    });
    for (int i = 1; i < merges; ++i) {
      MergeInto(slots - 1 - i, [](int, const gpu::Float4* at) { return gpu::LoadVolatile(at); });
    }
    if (last) Reload(slots - merges);
  }

 private:
  static constexpr int D = C::kValueDim;
  static constexpr int kAtOnce = 4;  // Float4s on the way

  // Pending node `slot` becomes merged with the one after it, of which right(n, address) gives the sums; m and l of
  // that one are here, and so are the result's.
  template <class Right>
  RONDO_DEVICE void MergeInto(int slot, Right right) {
    RunningRows& rows = this->rows_[0];
    gpu::Float4* at = this->Pending(slot);
    const gpu::Float4* from = this->Pending(slot + 1);
    const gpu::Float4 left = gpu::LoadVolatile(at);
    const MergedRow merged[2] = {MergedRow(left.x, left.y, rows.m[0], rows.l[0]),
                                 MergedRow(left.z, left.w, rows.m[1], rows.l[1])};
    RONDO_UNROLL
    for (int half = 0; half < 2; ++half) {
      rows.m[half] = merged[half].m;
      rows.l[half] = merged[half].l;
    }
    gpu::StoreVolatile(at, {rows.m[0], rows.l[0], rows.m[1], rows.l[1]});
    RONDO_UNROLL
    for (int begin = 0; begin < D / 8; begin += kAtOnce) {
      gpu::Float4 sums[kAtOnce], others[kAtOnce];
      RONDO_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        sums[i] = gpu::LoadVolatile(at + (1 + begin + i) * C::kRowThreads);
        others[i] = right(begin + i, from + (1 + begin + i) * C::kRowThreads);
      }
      RONDO_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        gpu::StoreVolatile(at + (1 + begin + i) * C::kRowThreads,
                           {merged[0].Join(sums[i].x, others[i].x), merged[0].Join(sums[i].y, others[i].y),
                            merged[1].Join(sums[i].z, others[i].z), merged[1].Join(sums[i].w, others[i].w)});
      }
    }
  }

  // The sums of pending node `slot`; m and l are here.
  RONDO_DEVICE void Reload(int slot) {
    const gpu::Float4* from = this->Pending(slot);
    RONDO_UNROLL
    for (int n = 0; n < D / 8; ++n) {
      const gpu::Float4 sums = gpu::Load(from + (1 + n) * C::kRowThreads);
      float(&o)[4] = this->o[0][n];
      o[0] = sums.x;
      o[1] = sums.y;
      o[2] = sums.z;
      o[3] = sums.w;
    }
  }
};

}  // namespace rondo::cuda
