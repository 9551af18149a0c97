// Cosines and sines of the rotary embedding for any positions; the decoder asks it once a forward pass.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "rondo/attention.h"
#include "rondo/model.h"

namespace rondo {

// Angles are formed and reduced in double with base/det_math.h, then rounded once to float: every rank and machine has
// the same bits whatever positions it was dealt, and position one million is as exact as position one.
class RopeTable {
 public:
  // Uses rope_base, rotated, rope_divisors and rope_linear_factor.
  explicit RopeTable(const ModelConfig& config);

  // cos, sin: [TotalRows(runs), rotated / 2]. Any thread.
  void Fill(absl::Span<const PositionRun> runs, float* cos, float* sin) const;

  // Radians a position, one a pair: base^(-2i / rotated) / divisor / linear factor.
  absl::Span<const double> inverse_frequencies() const { return inverse_frequencies_; }

 private:
  std::vector<double> inverse_frequencies_;  // [rotated / 2]
};

}  // namespace rondo
