// Sampled rows of an attention job in float64, plain loops over the definition: what --verify holds the answer against.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "cli/attend_tensors.h"
#include "cli/npy_rows.h"

namespace rondo::cli {

struct AttendError {
  int64_t rows = 0;          // pairs of row and head that were compared
  double largest = 0;        // absolute; NaN if any element is
  double largest_value = 0;  // of |V| over what those rows see: the scale of the error
};

// Rows spread over the whole, first and last included, as many as take about a second.
absl::StatusOr<AttendError> CheckAgainstFloat64(const AttendTensors& tensors, const NpyRows& o);

// O of one row and head; zeros where nothing is visible.
std::vector<double> AttendFloat64(const AttendTensors& tensors, int64_t row, int32_t head, double* largest_value);

}  // namespace rondo::cli
