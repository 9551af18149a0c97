#include "tests/kernels/cuda/problem.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "tests/testing/simt/small_floats.h"

namespace rondo::cuda {

float ToFloat(ElementType type, uint16_t bits) {
  return type == ElementType::kBf16 ? simt::Bf16ToFloat(bits) : simt::Fp16ToFloat(bits);
}

uint16_t FromFloat(ElementType type, float value) {
  return type == ElementType::kBf16 ? simt::FloatToBf16(value) : simt::FloatToFp16(value);
}

std::string Problem::Describe() const {
  std::ostringstream s;
  s << (type == ElementType::kBf16 ? "bf16" : "fp16") << " D=" << head_dim << " heads=" << q_heads << "/" << kv_heads
    << " rows=" << rows << " at " << first_position << " tokens=" << tokens << (causal ? " causal" : "");
  if (window > 0) s << " window=" << window;
  if (visible_begin > 0 || visible_end < tokens) s << " visible=[" << visible_begin << "," << visible_end << ")";
  if (softcap > 0) s << " softcap=" << softcap;
  if (alibi) s << " alibi";
  if (sinks) s << " sinks";
  return s.str();
}

bool Problem::Sees(int64_t position, int64_t key) const {
  if (key < 0 || key >= tokens || key < visible_begin || key >= visible_end) return false;
  if (causal && key > position) return false;
  if (window > 0 && position - key >= window) return false;
  if (window > 0 && !causal && key - position >= window) return false;
  return true;
}

float Problem::scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

Tensors::Tensors(const Problem& problem, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<uint16_t>* x, int64_t count, float amplitude) {
    x->resize(static_cast<size_t>(count));
    for (uint16_t& e : *x) e = FromFloat(problem.type, amplitude * normal(random));
  };
  const int64_t key_row = int64_t{problem.kv_heads} * problem.head_dim;
  fill(&q, problem.rows * problem.q_heads * problem.head_dim, problem.amplitude);
  fill(&k, problem.tokens * key_row, 1);
  fill(&v, problem.tokens * key_row, 1);
  for (int head = 0; head < problem.q_heads; ++head) {
    slopes.push_back(std::exp2(-static_cast<float>(head + 1)));
    // One head without, which is written -inf.
    sinks.push_back(head == 1 ? -std::numeric_limits<float>::infinity() : normal(random));
  }
  for (int64_t key = 0; key < problem.tokens; ++key) {
    bool seen = false;
    for (int64_t row = 0; row < problem.rows && !seen; ++row) seen = problem.Sees(problem.first_position + row, key);
    if (seen) continue;
    for (int64_t i = key * key_row; i < (key + 1) * key_row; ++i) k[i] = v[i] = 0x7fff;
  }
}

Answer PlainLoops(const Problem& p, const Tensors& t) {
  Answer answer;
  answer.out.resize(static_cast<size_t>(p.rows) * p.q_heads * p.head_dim);
  answer.lse.resize(static_cast<size_t>(p.rows) * p.q_heads);
  const auto element = [&](const std::vector<uint16_t>& x, int64_t row, int heads, int head, int d) {
    return static_cast<double>(ToFloat(p.type, x[static_cast<size_t>((row * heads + head) * p.head_dim + d)]));
  };
  const double infinity = std::numeric_limits<double>::infinity();
  for (int64_t row = 0; row < p.rows; ++row) {
    const int64_t position = p.first_position + row;
    for (int head = 0; head < p.q_heads; ++head) {
      const int kv_head = head / (p.q_heads / p.kv_heads);
      std::vector<double> score(static_cast<size_t>(p.tokens), -infinity);
      double largest = p.sinks ? static_cast<double>(t.sinks[head]) : -infinity;
      for (int64_t key = 0; key < p.tokens; ++key) {
        if (!p.Sees(position, key)) continue;
        double s = 0;
        for (int d = 0; d < p.head_dim; ++d)
          s += element(t.q, row, p.q_heads, head, d) * element(t.k, key, p.kv_heads, kv_head, d);
        s *= static_cast<double>(p.scale());
        if (p.softcap > 0) s = p.softcap * std::tanh(s / p.softcap);
        if (p.alibi) s -= static_cast<double>(t.slopes[head]) * static_cast<double>(std::abs(key - position));
        score[key] = s;
        largest = std::max(largest, s);
      }
      double sum = 0;
      if (p.sinks && t.sinks[head] > -infinity) sum += std::exp(static_cast<double>(t.sinks[head]) - largest);
      std::vector<double> o(static_cast<size_t>(p.head_dim), 0.0);
      for (int64_t key = 0; key < p.tokens; ++key) {
        if (score[key] == -infinity) continue;
        const double weight = std::exp(score[key] - largest);
        sum += weight;
        for (int d = 0; d < p.head_dim; ++d) o[d] += weight * element(t.v, key, p.kv_heads, kv_head, d);
      }
      const int64_t at = row * p.q_heads + head;
      answer.lse[at] = sum > 0 ? largest + std::log(sum) : -infinity;
      for (int d = 0; d < p.head_dim; ++d) answer.out[at * p.head_dim + d] = sum > 0 ? o[d] / sum : 0;
    }
  }
  return answer;
}

Errors Compare(const Answer& answer, const std::vector<float>& out, const std::vector<float>& lse) {
  const double infinity = std::numeric_limits<double>::infinity();
  Errors errors;
  double squares = 0;
  for (size_t i = 0; i < answer.out.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(out[i]) - answer.out[i]);
    errors.out = std::isnan(difference) ? infinity : std::max(errors.out, difference);
    squares += answer.out[i] * answer.out[i];
  }
  if (squares > 0) errors.out /= std::sqrt(squares / static_cast<double>(answer.out.size()));
  for (size_t i = 0; i < answer.lse.size(); ++i) {
    const auto got = static_cast<double>(lse[i]);
    if (got == answer.lse[i]) continue;  // -inf too
    const double difference = std::fabs(got - answer.lse[i]) / std::max(1.0, std::fabs(answer.lse[i]));
    errors.lse = std::isnan(difference) ? infinity : std::max(errors.lse, difference);
  }
  return errors;
}

bool Acceptable(ElementType type, const Errors& errors) {
  // Probabilities keep 8 bits (bf16) or 11 (fp16); over many keys the errors average out, a row that sees few keys has
  // them in full: half a unit in the last place of weights that sum to 1, times values that reach 4.
  const double unit = type == ElementType::kBf16 ? 0x1p-9 : 0x1p-12;
  return errors.out < 16 * unit && errors.lse < 2e-5;
}

}  // namespace rondo::cuda
