// Compares the logits of two runs of one request, for `rondo verify`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace rondo::cli {

// The logits of one run, collected from its events. Rows in order.
class LogitsTable {
 public:
  // As NpyWriter::Append: pieces come in order, without gaps; DATA_LOSS otherwise.
  absl::Status Append(uint64_t step, uint64_t offset, std::string_view bytes);

  uint64_t rows() const { return starts_.size(); }
  const std::vector<float>& values() const { return values_; }
  // Where row `step` begins in values(); its end for step == rows().
  uint64_t start(uint64_t step) const { return step < starts_.size() ? starts_[step] : values_.size(); }

 private:
  std::vector<float> values_;
  std::vector<uint64_t> starts_;
};

struct LogitsDifference {
  bool same_shape = false;
  uint64_t different = 0;   // values whose bits differ
  uint64_t first_step = 0;  // of the first such value
  uint64_t first_token = 0;
  double largest_absolute = 0;  // over all values; NaN counts as infinite
  // Largest absolute difference of a row over that row's standard deviation in `b`: what a difference means to a
  // softmax does not depend on the level of the logits, and a single logit near 0 says nothing.
  double largest_relative = 0;
};

// `b` is the reference.
LogitsDifference CompareLogits(const LogitsTable& a, const LogitsTable& b);

// The same over the first rows that both have.
LogitsDifference CompareCommonRows(const LogitsTable& a, const LogitsTable& b);

}  // namespace rondo::cli
