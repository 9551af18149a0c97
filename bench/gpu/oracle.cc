#include "bench/gpu/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bf16.h"

namespace rondo::gpu_check {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Score(const std::vector<float>& q, const uint16_t* key, int64_t distance, const OracleScore& score) {
  double dot = 0;
  for (size_t d = 0; d < q.size(); ++d) dot += static_cast<double>(q[d]) * Bf16ToFloat(key[d]);
  double s = dot * score.scale;
  if (score.softcap != 0) s = score.softcap * std::tanh(s / score.softcap);
  return s - score.alibi_slope * static_cast<double>(distance);
}

}  // namespace

bool Sees(const OracleMask& mask, int64_t position, int64_t key) {
  if (key < mask.visible_begin || key >= mask.visible_end) return false;
  if (mask.causal && key > position) return false;
  if (mask.window > 0 && position - key >= mask.window) return false;
  if (mask.window > 0 && !mask.causal && key - position >= mask.window) return false;
  return true;
}

OracleRow AttendRow(const std::vector<float>& q, const HeadRows& keys, const HeadRows& values, int64_t position,
                    const OracleMask& mask, const OracleScore& score) {
  const size_t d = q.size();
  const auto tokens = static_cast<int64_t>(keys.size() / d);
  std::vector<std::pair<int64_t, double>> seen;  // key, score
  double largest = score.has_sink ? score.sink : -kInfinity;
  for (int64_t key = 0; key < tokens; ++key) {
    if (!Sees(mask, position, key)) continue;
    seen.emplace_back(key, Score(q, &keys[static_cast<size_t>(key) * d], std::abs(position - key), score));
    largest = std::max(largest, seen.back().second);
  }
  OracleRow row{std::vector<double>(d), -kInfinity, std::vector<double>(d)};
  if (seen.empty() && !score.has_sink) return row;
  double sum = score.has_sink ? std::exp(score.sink - largest) : 0;
  for (const auto& [key, s] : seen) sum += std::exp(s - largest);
  for (const auto& [key, s] : seen) {
    const double p = std::exp(s - largest) / sum;
    const uint16_t* value = &values[static_cast<size_t>(key) * d];
    for (size_t i = 0; i < d; ++i) {
      const double v = Bf16ToFloat(value[i]);
      row.out[i] += p * v;
      row.weight[i] += p * std::abs(v);
    }
  }
  row.lse = largest + std::log(sum);
  return row;
}

double OutError(const OracleRow& row, const std::vector<float>& out) {
  double worst = 0;
  for (size_t i = 0; i < row.out.size(); ++i) {
    if (!std::isfinite(out[i])) return kInfinity;
    const double allowed = 1.25 / 512 * (row.weight[i] + std::abs(row.out[i])) + 1e-6;
    worst = std::max(worst, std::abs(out[i] - row.out[i]) / allowed);
  }
  return worst;
}

double LseError(const OracleRow& row, float lse) {
  if (std::isinf(row.lse) || !std::isfinite(lse)) return row.lse == lse ? 0 : kInfinity;
  return std::abs(lse - row.lse) / (1e-5 * std::max(1.0, std::abs(row.lse)));
}

}  // namespace rondo::gpu_check
