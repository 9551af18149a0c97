#include "kernels/cpu/attention/make_ops.h"
#include "kernels/cpu/attention/register_tile.h"
#include "kernels/cpu/simd/avx512.h"

namespace rondo::attention {

const AttentionOps& Avx512Ops() {
  static constexpr AttentionOps kOps = MakeOps<simd::Avx512, RegisterTile<simd::Avx512, 8>>();
  return kOps;
}

}  // namespace rondo::attention
