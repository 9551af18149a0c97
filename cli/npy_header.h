// Reads the header of a NumPy .npy file, format versions 1 to 3, without trusting a byte of it.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cli/tensor_view.h"

namespace rondo::cli {

// `file` is the whole file. INVALID_ARGUMENT says what is wrong and, where something can be done, what. Taken are
// '<f4',
// '<f2', '<i4', '<i8', and '<V2' or '|V2', which is what NumPy writes for the bfloat16 of ml_dtypes.
absl::StatusOr<ArrayHeader> ReadNpyHeader(absl::Span<const uint8_t> file);

}  // namespace rondo::cli
