// The SHA-256 of a matrix whose rows lie on many ranks, in row order, without any rank holding all of it; used by
// scale_rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rondo/attention.h"
#include "rondo/transport.h"

namespace rondo {

// `rows_of[rank]`: the runs that a rank holds, ascending; together they cover each row once. `own`: this rank's rows in
// the order of its runs, [rows, columns]. Lower-case hex on rank 0, "" on the others. Collective.
absl::StatusOr<std::string> RowOrderDigest(Transport& transport, absl::Span<const std::vector<PositionRun>> rows_of,
                                           int64_t columns, const float* own);

}  // namespace rondo
