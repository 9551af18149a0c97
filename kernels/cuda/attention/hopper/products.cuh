// The two products of attention by wgmma, for 64 rows: S = Q K^T with both from shared memory, O += P V with P from
// registers. Used by the consumers.
#pragma once

#include "kernels/cuda/attention/hopper/stages.cuh"

namespace rondo::cuda {

// A matrix descriptor for tiles with 128-byte swizzle (PTX ISA, "Matrix descriptor"): addresses and distances count 16
// bytes. `stride` lies between groups of eight lines; `leading` between slabs, where the operand is transposed.
class Descriptor {
 public:
  RONDO_DEVICE Descriptor(gpu::Shared start, int leading_bytes)
      : low_((start >> 4) | static_cast<uint32_t>(leading_bytes >> 4) << 16) {}

  // Of what lies so many bytes further on: the hardware applies the swizzle to addresses, not to offsets.
  RONDO_DEVICE uint64_t At(int bytes) const {
    constexpr uint32_t kSwizzle128 = 1;
    constexpr uint32_t kHigh = kSwizzleBytes >> 4 | kSwizzle128 << 30;
    return (low_ + static_cast<uint32_t>(bytes >> 4)) | uint64_t{kHigh} << 32;
  }

 private:
  uint32_t low_;
};

template <class C>
struct Products {
  static constexpr int D = C::kHeadDim;
  static constexpr int kKeys = C::kTileKeys;
  static constexpr int kDepth = 16;  // what one wgmma sums over: 32 bytes of a line, 16 lines of V
  using S = Stages<C>;
  using Element = typename C::Element;

  // Started, not finished. `q`: the group's rows.
  RONDO_DEVICE static void Scores(gpu::Shared q, gpu::Shared k, float (&s)[kKeys / 8][4]) {
    // Leading bytes are not used where the operand is not transposed. Opaque: D / 16 descriptors of Q are not worth
    // keeping.
    const Descriptor a(static_cast<gpu::Shared>(gpu::Opaque(static_cast<int>(q))), 16), b(k, 16);
    RONDO_UNROLL
    for (int step = 0; step < D / kDepth; ++step) {
      const int slab = step * kDepth / kLineElements;
      const int along = step * kDepth % kLineElements * 2;  // bytes into the line
      gpu::WgmmaShared<Element, kKeys>(s, a.At(slab * S::kQuerySlabBytes + along), b.At(slab * S::kSlabBytes + along),
                                       step > 0);
    }
  }

  // Two accumulator tiles side by side are one A operand, as for mma.sync.
  RONDO_DEVICE static void Pack(const float (&s)[kKeys / 8][4], uint32_t (&p)[kKeys / kDepth][4]) {
    RONDO_UNROLL
    for (int step = 0; step < kKeys / kDepth; ++step) {
      RONDO_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float* pair = &s[2 * step + j / 2][j % 2 * 2];
        p[step][j] = gpu::Pack<Element>(pair[0], pair[1]);
      }
    }
  }

  RONDO_DEVICE static void Values(const uint32_t (&p)[kKeys / kDepth][4], gpu::Shared v, float (&o)[D / 8][4]) {
    const Descriptor b(v, S::kSlabBytes);
    RONDO_UNROLL
    for (int step = 0; step < kKeys / kDepth; ++step) {
      gpu::WgmmaRegisters<Element, D>(o, p[step], b.At(step * kDepth * kLineBytes), true);
    }
  }
};

}  // namespace rondo::cuda
