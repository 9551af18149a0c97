// Which rows a CTA is at, as RowSpan and RowPartials ask for it; used by the prefill kernels.
#pragma once

#include "kernels/cuda/device/device.h"

namespace rondo::cuda {

// Rows [first_row, first_row + valid_rows) of one query head, and of the values' columns one part.
class RowPlace {
 public:
  RONDO_DEVICE RowPlace(int head, int part, int first_row, int valid_rows)
      : head_(head), part_(part), first_row_(first_row), valid_rows_(valid_rows) {}

  RONDO_DEVICE int head() const { return head_; }
  RONDO_DEVICE int part() const { return part_; }
  RONDO_DEVICE int first_row() const { return first_row_; }
  RONDO_DEVICE int valid_rows() const { return valid_rows_; }

 private:
  const int head_, part_, first_row_, valid_rows_;
};

}  // namespace rondo::cuda
