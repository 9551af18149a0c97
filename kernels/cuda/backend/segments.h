// Rows cut where a packed sequence ends: the kernels want rows that see one interval of positions. Used by
// CudaAttention.
#pragma once

#include <cstdint>

#include "rondo/attention_kernels.h"

namespace rondo::cuda {

struct Segment {
  int64_t begin, end;                  // of the query rows
  int64_t visible_begin, visible_end;  // the positions they may see
};

// The segment that begins at `row`, one of `queries`.
Segment SegmentAt(const MaskSpec& mask, const QueryRows& queries, int64_t row);

}  // namespace rondo::cuda
