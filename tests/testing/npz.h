// Reads NumPy's .npz archives of golden arrays; used by tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rondo {

struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<double> values;  // row-major; every integer and float32 of our files fits
};

// Arrays by name, stored or deflated, of little-endian i4, i8, f4 or f8 in C order. INVALID_ARGUMENT naming the file
// and what is wrong with it.
absl::StatusOr<std::map<std::string, NpyArray>> ReadNpz(const std::string& path);

}  // namespace rondo
