#include "bench/gpu/problem.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/bf16.h"

namespace rondo::gpu_check {
namespace {

size_t Elements(int64_t tokens, int heads, int head_dim) { return static_cast<size_t>(tokens) * heads * head_dim; }

std::vector<float> RandomFloats(int count, float low, float high, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(low + (high - low) * static_cast<float>(random() >> 40) / static_cast<float>(1 << 24));
  }
  return values;
}

std::vector<float> Widened(const std::vector<uint16_t>& from) {
  std::vector<float> to;
  for (const uint16_t bits : from) to.push_back(Bf16ToFloat(bits));
  return to;
}

}  // namespace

float Shape::scale() const { return 1 / std::sqrt(static_cast<float>(head_dim)); }

std::string Shape::Words() const {
  std::string words = "D " + std::to_string(head_dim) + ", " + std::to_string(q_heads) + "/" +
                      std::to_string(kv_heads) + " heads, " + std::to_string(rows) + " rows from " +
                      std::to_string(first_position) + " on " + std::to_string(tokens) + " keys, " +
                      (mask.causal ? "causal" : "none");
  if (mask.window > 0) words += ", window " + std::to_string(mask.window);
  if (mask.visible_begin > 0) words += ", from key " + std::to_string(mask.visible_begin);
  if (mask.visible_end < tokens) words += ", to key " + std::to_string(mask.visible_end);
  if (softcap != 0) words += ", soft cap";
  if (alibi) words += ", ALiBi";
  if (sinks) words += ", sinks";
  return words;
}

double Flops(const Shape& s) {
  double pairs = 0;
  for (int64_t row = 0; row < s.rows; ++row) {
    const int64_t p = s.first_position + row;
    int64_t begin = s.mask.visible_begin, end = std::min(s.tokens, s.mask.visible_end);
    if (s.mask.window > 0) begin = std::max(begin, p - s.mask.window + 1);
    if (s.mask.window > 0 && !s.mask.causal) end = std::min(end, p + s.mask.window);
    if (s.mask.causal) end = std::min(end, p + 1);
    pairs += static_cast<double>(std::max<int64_t>(end - begin, 0));
  }
  return pairs * s.q_heads * s.head_dim * 4;
}

size_t ProblemBytes(const Shape& s) {
  return 2 * (2 * Elements(s.rows, s.q_heads, s.head_dim) + 2 * Elements(s.tokens, s.kv_heads, s.head_dim)) +
         4 * Elements(s.rows, s.q_heads, 1);
}

Problem::Problem(const Shape& shape, uint64_t seed)
    : shape_(shape),
      q_(Elements(shape.rows, shape.q_heads, shape.head_dim)),
      k_(Elements(shape.tokens, shape.kv_heads, shape.head_dim)),
      v_(k_.count()),
      host_slopes_(RandomFloats(shape.q_heads, 0.01f, 0.1f, seed)),
      host_sinks_(RandomFloats(shape.q_heads, -2, 4, seed + 1)),
      slopes_(host_slopes_),
      sinks_(host_sinks_) {
  FillRandom(q_.get(), q_.count(), 3 * seed, shape.q_deviation);
  FillRandom(k_.get(), k_.count(), 3 * seed + 1, 1);
  FillRandom(v_.get(), v_.count(), 3 * seed + 2, 1);
  HideUnseenKeys();
}

// Nobody may look at keys outside of [visible_begin, visible_end): they hold NaN.
void Problem::HideUnseenKeys() {
  const int64_t row = int64_t{shape_.kv_heads} * shape_.head_dim;
  const auto hide = [&](int64_t begin, int64_t end) {
    if (end <= begin) return;
    const size_t bytes = static_cast<size_t>((end - begin) * row) * sizeof(uint16_t);
    Require(cudaMemset(k_.get() + begin * row, 0xff, bytes), "hiding keys");
    Require(cudaMemset(v_.get() + begin * row, 0xff, bytes), "hiding values");
  };
  hide(0, std::min(shape_.mask.visible_begin, shape_.tokens));
  hide(shape_.mask.visible_end, shape_.tokens);
}

cuda::AttentionArgs Problem::Args() const { return Args(0, shape_.rows, 0, blocks()); }

cuda::AttentionArgs Problem::Args(int64_t begin, int64_t end, int64_t first_block, int64_t end_block) const {
  const int64_t d = shape_.head_dim, q_row = d * shape_.q_heads, kv_row = d * shape_.kv_heads;
  const int64_t first_key = first_block * BlockTokens();
  cuda::AttentionArgs args;
  args.q_heads = shape_.q_heads;
  args.kv_heads = shape_.kv_heads;
  args.mask = {shape_.mask.causal, shape_.mask.window, shape_.mask.visible_begin, shape_.mask.visible_end};
  args.score = {shape_.scale(), shape_.softcap, shape_.alibi ? slopes_.get() : nullptr};
  args.query.q = q_.get() + begin * q_row;
  args.query.row_stride = q_row;
  args.query.head_stride = d;
  args.query.rows = end - begin;
  args.query.first_position = shape_.first_position + begin;
  args.keys.k = k_.get() + first_key * kv_row;
  args.keys.v = v_.get() + first_key * kv_row;
  args.keys.row_stride = kv_row;
  args.keys.head_stride = d;
  args.keys.first_block = first_block;
  args.keys.tokens = std::min(shape_.tokens, end_block * BlockTokens()) - first_key;
  args.output.sinks = shape_.sinks ? sinks_.get() : nullptr;
  return args;
}

OracleScore Problem::Score(int head) const {
  OracleScore score;
  score.scale = shape_.scale();
  score.softcap = shape_.softcap;
  score.alibi_slope = shape_.alibi ? host_slopes_[head] : 0;
  score.has_sink = shape_.sinks;
  score.sink = host_sinks_[head];
  return score;
}

OracleRow Problem::Oracle(int64_t row, int head) const {
  const size_t d = shape_.head_dim;
  const std::vector<uint16_t> q = q_.ToHost((static_cast<size_t>(row) * shape_.q_heads + head) * d, d);
  const size_t kv_head = head / (shape_.q_heads / shape_.kv_heads);
  const size_t stride = d * shape_.kv_heads, tokens = static_cast<size_t>(shape_.tokens);
  return AttendRow(Widened(q), k_.Gather(kv_head * d, d, stride, tokens), v_.Gather(kv_head * d, d, stride, tokens),
                   shape_.first_position + row, shape_.mask, Score(head));
}

FinishedRows::FinishedRows(const Shape& s, bool out_is_float)
    : shape(s),
      as_float(out_is_float),
      out_bf16(out_is_float ? 0 : Elements(s.rows, s.q_heads, s.head_dim)),
      out_float(out_is_float ? Elements(s.rows, s.q_heads, s.head_dim) : 0),
      lse(Elements(s.rows, s.q_heads, 1)) {
  Poison();
}

void FinishedRows::Poison() {
  out_bf16.Poison();
  out_float.Poison();
  lse.Poison();
}

cuda::OutputArgs FinishedRows::Args() const {
  cuda::OutputArgs args;
  args.out = as_float ? static_cast<void*>(out_float.get()) : static_cast<void*>(out_bf16.get());
  args.out_is_float = as_float;
  args.row_stride = int64_t{shape.q_heads} * shape.head_dim;
  args.head_stride = shape.head_dim;
  args.lse = lse.get();
  args.lse_row_stride = shape.q_heads;
  return args;
}

std::vector<float> FinishedRows::Out(int64_t row, int head) const {
  const size_t begin = (static_cast<size_t>(row) * shape.q_heads + head) * shape.head_dim;
  return as_float ? out_float.ToHost(begin, shape.head_dim) : Widened(out_bf16.ToHost(begin, shape.head_dim));
}

float FinishedRows::Lse(int64_t row, int head) const {
  return lse.ToHost(static_cast<size_t>(row) * shape.q_heads + head, 1).front();
}

double RowErrors::Rms() const { return numbers == 0 ? 0 : std::sqrt(out_square / static_cast<double>(numbers)); }

void AddErrors(const OracleRow& oracle, const std::vector<float>& out, float lse, RowErrors* errors) {
  errors->out = std::max(errors->out, OutError(oracle, out));
  errors->lse = std::max(errors->lse, LseError(oracle, lse));
  for (size_t i = 0; i < out.size(); ++i) errors->out_square += (out[i] - oracle.out[i]) * (out[i] - oracle.out[i]);
  errors->numbers += static_cast<int64_t>(out.size());
}

std::vector<Sample> Samples(const Shape& shape, int count) {
  std::vector<Sample> samples;
  if (shape.rows == 0) return samples;
  const int64_t last = shape.rows - 1;
  const int64_t wanted[] = {0, last, 15, 16, 63, 64, 127, 128, last - 1, last / 2};
  std::mt19937_64 random(static_cast<uint64_t>(shape.rows * 1000 + shape.head_dim));
  for (int i = 0; i < count; ++i) {
    const bool named = i < static_cast<int>(std::size(wanted)) && wanted[i] >= 0 && wanted[i] <= last;
    const int64_t row = named ? wanted[i] : static_cast<int64_t>(random() % static_cast<uint64_t>(shape.rows));
    const int head = i == 0   ? 0
                     : i == 1 ? shape.q_heads - 1
                              : static_cast<int>(random() % static_cast<uint64_t>(shape.q_heads));
    samples.push_back({row, head});
  }
  return samples;
}

}  // namespace rondo::gpu_check
