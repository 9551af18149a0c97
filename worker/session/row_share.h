// A rank's rows of a tensor: where a row of the whole lies among the rank's own, and which have arrived.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rondo/attention.h"

namespace rondo {

class RowShare {
 public:
  RowShare() = default;
  explicit RowShare(absl::Span<const PositionRun> runs);

  int64_t rows() const { return rows_; }

  // Where rows [first, first + count) lie among this rank's own, which keep their order. They must lie in one run;
  // OUT_OF_RANGE naming the rows and the share otherwise. count 0: to the end of the run; `*count` becomes the number.
  absl::StatusOr<int64_t> Locate(int64_t first, int64_t* count) const;

 private:
  std::vector<PositionRun> runs_;
  std::vector<int64_t> begins_;  // of each run among the own rows
  int64_t rows_ = 0;
};

// Which rows have come; not thread-safe.
class ArrivedRows {
 public:
  void Reset(int64_t rows) { seen_.assign(rows, false); }
  void Mark(int64_t first, int64_t count);
  int64_t count() const { return count_; }
  int64_t total() const { return static_cast<int64_t>(seen_.size()); }

 private:
  std::vector<bool> seen_;
  int64_t count_ = 0;
};

}  // namespace rondo
