#include "model/decoder/reference_decoder.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/thread_pool.h"
#include "model/decoder/reference_weights.h"

namespace rondo {
namespace {

// Tokens that share one pass over a weight row: independent sums that the compiler keeps in vector registers.
constexpr int64_t kTile = 8;

double Activate(GateKind kind, double x) {
  if (kind == GateKind::kSilu) return x / (1 + std::exp(-x));
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
}

}  // namespace

ReferenceDecoder::ReferenceDecoder(const ModelConfig& config, const ModelWeights& weights, ThreadPool& pool)
    : config_(config), weights_(weights), pool_(pool), keys_(config.layers), values_(config.layers) {
  for (int32_t i = 0; i < config.rotated / 2; ++i) {
    double frequency = std::pow(config.rope_base, -2.0 * i / config.rotated) / config.rope_linear_factor;
    if (!config.rope_divisors.empty()) frequency /= config.rope_divisors[i];
    frequency_.push_back(frequency);
  }
}

uint64_t ReferenceDecoder::MemoryBytes(const ModelConfig& config, int64_t prompt_tokens, int64_t total_tokens,
                                       int threads) {
  const uint64_t kv_width = uint64_t(config.kv_heads) * config.head_dim;
  const uint64_t q_width = uint64_t(config.q_heads) * config.head_dim;
  const uint64_t embedding = config.embedding, ffn = config.feed_forward;
  const uint64_t rows = (prompt_tokens + kTile - 1) / kTile * kTile;
  // In Layer: x, normed, attended and ffn_in; q; k and v; and either the feed-forward's gate, up, transposed and down,
  // or the attention's result, transposed and product.
  const uint64_t row_width =
      4 * embedding + q_width + 2 * kv_width + std::max(3 * ffn + embedding, 2 * q_width + embedding);
  const uint64_t scores = uint64_t(threads) * total_tokens;  // of one row in Attend
  const uint64_t cached = 2 * uint64_t(config.layers) * kv_width * total_tokens;
  return sizeof(double) * (cached + row_width * rows + scores + 2 * uint64_t(config.vocab));
}

void ReferenceDecoder::Reserve(int64_t total_tokens) {
  for (std::vector<Rows>* side : {&keys_, &values_}) {
    for (Rows& rows : *side) rows.reserve(total_tokens * config_.kv_heads * config_.head_dim);
  }
}

ReferenceDecoder::Rows ReferenceDecoder::MatMul(const WeightView& weight, const Rows& x) const {
  const int64_t count = static_cast<int64_t>(x.size()) / weight.cols;
  const int64_t tiles = (count + kTile - 1) / kTile;
  std::vector<double> transposed(tiles * kTile * weight.cols);  // [tiles, cols, kTile], zeros after the last row
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < weight.cols; ++c) {
      transposed[((i / kTile) * weight.cols + c) * kTile + i % kTile] = x[i * weight.cols + c];
    }
  }
  Rows y(count * weight.rows);
  constexpr int64_t kStripe = 16;
  pool_.Run((weight.rows + kStripe - 1) / kStripe, [&](int64_t stripe, int) {
    std::vector<double> w(weight.cols);
    for (int64_t r = stripe * kStripe; r < std::min(weight.rows, (stripe + 1) * kStripe); ++r) {
      ReferenceRow(weight, r, w.data());
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const double* column = &transposed[tile * weight.cols * kTile];
        double sum[kTile] = {};
        for (int64_t c = 0; c < weight.cols; ++c, column += kTile) {
          for (int64_t i = 0; i < kTile; ++i) sum[i] += w[c] * column[i];
        }
        const int64_t live = std::min(kTile, count - tile * kTile);
        for (int64_t i = 0; i < live; ++i) y[(tile * kTile + i) * weight.rows + r] = sum[i];
      }
    }
  });
  return y;
}

ReferenceDecoder::Rows ReferenceDecoder::Norm(const Rows& x, const float* gain) const {
  const int64_t width = config_.embedding;
  Rows y(x.size());
  for (size_t row = 0; row < x.size(); row += width) {
    double squares = 0;
    for (int64_t c = 0; c < width; ++c) squares += x[row + c] * x[row + c];
    const double scale = 1 / std::sqrt(squares / width + config_.norm_eps);
    for (int64_t c = 0; c < width; ++c) y[row + c] = x[row + c] * scale * gain[c];
  }
  return y;
}

void ReferenceDecoder::Rope(Rows& x, int32_t heads) const {
  const int32_t half = config_.rotated / 2;
  const bool interleaved = config_.rope_pairing == RopePairing::kInterleaved;
  const int64_t rows = static_cast<int64_t>(x.size()) / (heads * config_.head_dim);
  for (int64_t row = 0; row < rows; ++row) {
    for (int32_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(tokens_ + row) * frequency_[i];
      const double cosine = std::cos(angle), sine = std::sin(angle);
      for (int32_t h = 0; h < heads; ++h) {
        double* head = &x[(row * heads + h) * config_.head_dim];
        double& a = head[interleaved ? 2 * i : i];
        double& b = head[interleaved ? 2 * i + 1 : i + half];
        const double turned = a * cosine - b * sine;
        b = a * sine + b * cosine;
        a = turned;
      }
    }
  }
}

// keys and values already hold the new rows.
ReferenceDecoder::Rows ReferenceDecoder::Attend(const Rows& q, const Rows& keys, const Rows& values) const {
  const int64_t dim = config_.head_dim, q_width = config_.q_heads * dim, kv_width = config_.kv_heads * dim;
  Rows out(q.size());
  pool_.Run(static_cast<int64_t>(q.size()) / dim, [&](int64_t task, int) {
    const int64_t row = task / config_.q_heads, head = task % config_.q_heads;
    const int64_t kv_offset = head / (config_.q_heads / config_.kv_heads) * dim;
    const double* query = &q[row * q_width + head * dim];
    std::vector<double> weight(tokens_ + row + 1);
    double best = -INFINITY;
    for (size_t t = 0; t < weight.size(); ++t) {
      double score = 0;
      for (int64_t d = 0; d < dim; ++d) score += query[d] * keys[t * kv_width + kv_offset + d];
      weight[t] = score / std::sqrt(static_cast<double>(dim));
      best = std::max(best, weight[t]);
    }
    double sum = 0;
    for (double& w : weight) sum += w = std::exp(w - best);
    double* result = &out[row * q_width + head * dim];
    for (size_t t = 0; t < weight.size(); ++t) {
      for (int64_t d = 0; d < dim; ++d) result[d] += weight[t] / sum * values[t * kv_width + kv_offset + d];
    }
  });
  return out;
}

void ReferenceDecoder::Layer(const LayerWeights& layer, Rows& keys, Rows& values, Rows& x) const {
  const Rows normed = Norm(x, layer.attn_norm);
  Rows q = MatMul(layer.wq, normed), k = MatMul(layer.wk, normed);
  const Rows v = MatMul(layer.wv, normed);
  Rope(q, config_.q_heads);
  Rope(k, config_.kv_heads);
  keys.insert(keys.end(), k.begin(), k.end());
  values.insert(values.end(), v.begin(), v.end());
  const Rows attended = MatMul(layer.wo, Attend(q, keys, values));
  for (size_t i = 0; i < x.size(); ++i) x[i] += attended[i];

  const Rows ffn_in = Norm(x, layer.ffn_norm);
  Rows gate = MatMul(layer.gate, ffn_in);
  const Rows up = MatMul(layer.up, ffn_in);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = Activate(config_.gate, gate[i]) * up[i];
  const Rows down = MatMul(layer.down, gate);
  for (size_t i = 0; i < x.size(); ++i) x[i] += down[i];
}

std::vector<double> ReferenceDecoder::Append(absl::Span<const int32_t> tokens,
                                             absl::FunctionRef<bool(double fraction)> keep_going) {
  RONDO_CHECK(!tokens.empty());
  Rows x(tokens.size() * config_.embedding);
  for (size_t i = 0; i < tokens.size(); ++i) {
    RONDO_CHECK(tokens[i] >= 0 && tokens[i] < config_.vocab);
    ReferenceRow(weights_.embedding, tokens[i], &x[i * config_.embedding]);
  }
  for (int32_t layer = 0; layer < config_.layers; ++layer) {
    Layer(weights_.layers[layer], keys_[layer], values_[layer], x);
    if (!keep_going((layer + 1.0) / config_.layers)) return {};
  }
  tokens_ += static_cast<int64_t>(tokens.size());
  const Rows last(x.end() - config_.embedding, x.end());
  return MatMul(weights_.output, Norm(last, weights_.output_norm));
}

}  // namespace rondo
