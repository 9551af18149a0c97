#include "kernels/rope_table.h"

#include "base/check.h"
#include "base/det_math.h"
#include "base/fp_env.h"

namespace rondo {

RopeTable::RopeTable(const ModelConfig& config) {
  ScopedComputeFpEnv fp_env;
  const int32_t pairs = config.rotated / 2;
  RONDO_CHECK(config.rope_divisors.empty() || static_cast<int32_t>(config.rope_divisors.size()) == pairs);
  inverse_frequencies_.resize(pairs);
  for (int32_t i = 0; i < pairs; ++i) {
    double frequency = Pow(config.rope_base, -2.0 * i / config.rotated);
    if (!config.rope_divisors.empty()) frequency /= config.rope_divisors[i];
    inverse_frequencies_[i] = frequency / config.rope_linear_factor;
  }
}

void RopeTable::Fill(absl::Span<const PositionRun> runs, float* cos, float* sin) const {
  ScopedComputeFpEnv fp_env;
  for (const PositionRun& run : runs) {
    for (int64_t position = run.begin; position < run.end; ++position) {
      for (const double frequency : inverse_frequencies_) {
        double s, c;
        SinCos(static_cast<double>(position) * frequency, &s, &c);
        *sin++ = static_cast<float>(s);
        *cos++ = static_cast<float>(c);
      }
    }
  }
}

}  // namespace rondo
