// Fills the table of an instruction set from a vector type and a register tile; used by the ops_*.cc.
#pragma once

#include "kernels/cpu/attention/few_rows_kernel.h"
#include "kernels/cpu/attention/ops.h"
#include "kernels/cpu/attention/pack_kernel.h"
#include "kernels/cpu/attention/row_kernel.h"
#include "kernels/cpu/attention/strip_kernel.h"

namespace rondo::attention {
namespace {

template <typename V, typename Tile>
constexpr AttentionOps MakeOps() {
  using Strip = StripKernel<V, Tile>;
  using Pack = PackKernel<V, Tile>;
  static_assert(Tile::kLanes <= kMaxLanes && 256 % Tile::kRows == 0 && Tile::kRows % 4 == 0);
  return {.lanes = Tile::kLanes,
          .key_step = Tile::kRows,
          .d_step = Tile::kRows,
          .pack_queries = Pack::PackQueries,
          .widen_keys = Pack::WidenKeys,
          .pack_values = Pack::PackValues,
          .packed_values_size = Pack::PackedValuesSize,
          .strip_block = Strip::Block,
          .merge_strips = Strip::Merge,
          .unpack_strip = Strip::Unpack,
          .few_rows_scratch = FewRowsKernel<V>::Scratch,
          .few_rows_block = FewRowsKernel<V>::Block,
          .merge_rows = RowKernel<V>::Merge,
          .merge_sinks = RowKernel<V>::MergeSinks,
          .finish_rows = RowKernel<V>::Finish};
}

}  // namespace
}  // namespace rondo::attention
