#include "cli/attend_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bf16.h"
#include "cli/visible_keys.h"

namespace rondo::cli {
namespace {

constexpr double kWork = 4e8;  // multiply-adds: about a second

// As the ranks keep it.
double KvElement(const AttendTensors& t, const TensorFile& file, int64_t i) {
  const float value = LoadElement(file, i);
  return t.spec.shape.kv_type == KvType::kBf16 ? Bf16ToFloat(FloatToBf16(value)) : value;
}

double Score(const AttendTensors& t, const std::vector<double>& q, int64_t key, int64_t position, int32_t head) {
  const AttentionShape& s = t.spec.shape;
  const int64_t kv_head = head / (s.q_heads / s.kv_heads);
  const int64_t begin = (key * s.kv_heads + kv_head) * s.head_dim;
  double score = 0;
  for (int32_t d = 0; d < s.head_dim; ++d) score += q[d] * KvElement(t, *t.k, begin + d);
  score *= s.scale;
  if (t.spec.softcap > 0) score = t.spec.softcap * std::tanh(score / t.spec.softcap);
  if (!t.spec.alibi_slopes.empty()) {
    score -= static_cast<double>(t.spec.alibi_slopes[head]) * static_cast<double>(std::abs(key - position));
  }
  return score;
}

}  // namespace

std::vector<double> AttendFloat64(const AttendTensors& t, int64_t row, int32_t head, double* largest_value) {
  const AttentionShape& s = t.spec.shape;
  std::vector<double> out(s.head_dim, 0.0);
  const PositionRun keys = VisibleKeysOf(t.spec, row);
  if (keys.size() <= 0) return out;
  const int64_t position = t.spec.kv_tokens - t.spec.q_tokens + row;
  std::vector<double> q(s.head_dim);
  for (int32_t d = 0; d < s.head_dim; ++d) q[d] = LoadElement(*t.q, (row * s.q_heads + head) * s.head_dim + d);
  std::vector<double> scores(keys.size());
  double top = t.spec.sinks.empty() ? -std::numeric_limits<double>::infinity() : t.spec.sinks[head];
  for (int64_t k = keys.begin; k < keys.end; ++k) {
    scores[k - keys.begin] = Score(t, q, k, position, head);
    top = std::max(top, scores[k - keys.begin]);
  }
  double sum = t.spec.sinks.empty() ? 0 : std::exp(t.spec.sinks[head] - top);
  const int64_t kv_head = head / (s.q_heads / s.kv_heads);
  for (int64_t k = keys.begin; k < keys.end; ++k) {
    const double weight = std::exp(scores[k - keys.begin] - top);
    sum += weight;
    for (int32_t d = 0; d < s.head_dim; ++d) {
      const double value = KvElement(t, *t.v, (k * s.kv_heads + kv_head) * s.head_dim + d);
      *largest_value = std::max(*largest_value, std::abs(value));
      out[d] += weight * value;
    }
  }
  for (double& value : out) value /= sum;
  return out;
}

absl::StatusOr<AttendError> CheckAgainstFloat64(const AttendTensors& t, const NpyRows& o) {
  AttendError error;
  const AttentionShape& s = t.spec.shape;
  const int64_t pairs = t.spec.q_tokens * s.q_heads;
  const double work = 2.0 * std::max<int64_t>(1, t.spec.kv_tokens) * s.head_dim;
  const int64_t samples = std::min<int64_t>(pairs, std::clamp<int64_t>(static_cast<int64_t>(kWork / work), 8, 512));
  for (int64_t i = 0; i < samples; ++i) {
    // From the first row to the last, and through the heads on the way.
    const int64_t row =
        samples == 1 ? 0 : static_cast<int64_t>(static_cast<__int128>(t.spec.q_tokens - 1) * i / (samples - 1));
    const int32_t head = static_cast<int32_t>(i * 7 % s.q_heads);
    const std::vector<double> wanted = AttendFloat64(t, row, head, &error.largest_value);
    absl::StatusOr<std::vector<float>> got = o.ReadRow(row);
    if (!got.ok()) return got.status();
    for (int32_t d = 0; d < s.head_dim; ++d) {
      const double difference = std::abs((*got)[int64_t{head} * s.head_dim + d] - wanted[d]);
      if (!(difference <= error.largest)) error.largest = difference;
      if (std::isnan(difference)) return error;
    }
    ++error.rows;
  }
  return error;
}

}  // namespace rondo::cli
