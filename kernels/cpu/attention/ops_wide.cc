#include "kernels/cpu/attention/make_ops.h"
#include "kernels/cpu/attention/register_tile.h"
#include "kernels/cpu/simd/wide.h"

namespace rondo::attention {

const AttentionOps& WideOps() {
  static constexpr AttentionOps kOps = MakeOps<simd::Wide, RegisterTile<simd::Wide, 8>>();
  return kOps;
}

}  // namespace rondo::attention
