#include "kernels/cpu/attention/make_ops.h"
#include "kernels/cpu/attention/register_tile_avx2.h"
#include "kernels/cpu/simd/avx2.h"

namespace rondo::attention {

const AttentionOps& Avx2Ops() {
  static constexpr AttentionOps kOps = MakeOps<simd::Avx2, RegisterTileAvx2>();
  return kOps;
}

}  // namespace rondo::attention
