#include "model/decoder/decoder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/thread_pool.h"

namespace rondo {
namespace {

// Rows that go through a layer's dense part together: enough to reuse each weight from cache, few enough that the
// widest activations ([256, feed_forward], twice) stay a few megabytes however long the prompt.
constexpr int64_t kRowBlock = 256;

void ForRowBlocks(int64_t rows, absl::FunctionRef<void(int64_t first, int64_t count)> block) {
  for (int64_t first = 0; first < rows; first += kRowBlock) block(first, std::min(kRowBlock, rows - first));
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const ModelWeights& weights, const DenseKernels& kernels, ComputeMode mode,
                 ThreadPool& pool)
    : config_(config), weights_(weights), kernels_(kernels), mode_(mode), pool_(pool), rope_(config) {}

absl::Status Decoder::CheckTokens(absl::Span<const int32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= config_.vocab) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", i, " has id ", tokens[i], ", the vocabulary has ", config_.vocab));
    }
  }
  return absl::OkStatus();
}

// Queries, keys and values of `count` rows from `first` on, rotated.
void Decoder::Project(const LayerWeights& layer, const float* hidden, int64_t first, int64_t count) {
  const int64_t width = config_.embedding;
  const int64_t q_width = int64_t{config_.q_heads} * config_.head_dim;
  const int64_t kv_width = int64_t{config_.kv_heads} * config_.head_dim;
  const float* cos = cos_.Get(0) + first * (config_.rotated / 2);
  const float* sin = sin_.Get(0) + first * (config_.rotated / 2);
  float* q = q_.Get(0) + first * q_width;
  float* k = k_.Get(0) + first * kv_width;
  float* v = v_.Get(0) + first * kv_width;
  float* normed = normed_.Get(kRowBlock * width);
  kernels_.RmsNorm(hidden + first * width, layer.attn_norm, config_.norm_eps, count, width, normed, pool_);
  kernels_.PrepareRows(mode_, normed, count, width, &embedding_rows_, pool_);
  kernels_.MatMul(layer.wq, embedding_rows_, q, pool_);
  kernels_.MatMul(layer.wk, embedding_rows_, k, pool_);
  kernels_.MatMul(layer.wv, embedding_rows_, v, pool_);
  kernels_.Rope(q, count, config_.q_heads, config_.head_dim, config_.rope_pairing, cos, sin, config_.rotated, pool_);
  kernels_.Rope(k, count, config_.kv_heads, config_.head_dim, config_.rope_pairing, cos, sin, config_.rotated, pool_);
}

void Decoder::AddAttended(const LayerWeights& layer, float* hidden, int64_t first, int64_t count) {
  const int64_t q_width = int64_t{config_.q_heads} * config_.head_dim;
  float* residual = residual_.Get(kRowBlock * config_.embedding);
  kernels_.PrepareRows(mode_, attended_.Get(0) + first * q_width, count, q_width, &attended_rows_, pool_);
  kernels_.MatMul(layer.wo, attended_rows_, residual, pool_);
  kernels_.Add(hidden + first * config_.embedding, residual, count * config_.embedding, pool_);
}

void Decoder::AddFeedForward(const LayerWeights& layer, float* hidden, int64_t count) {
  const int64_t width = config_.embedding;
  const int64_t inner = config_.feed_forward;
  float* normed = normed_.Get(kRowBlock * width);
  float* residual = residual_.Get(kRowBlock * width);
  float* gate = gate_.Get(kRowBlock * inner);
  float* up = up_.Get(kRowBlock * inner);
  kernels_.RmsNorm(hidden, layer.ffn_norm, config_.norm_eps, count, width, normed, pool_);
  kernels_.PrepareRows(mode_, normed, count, width, &embedding_rows_, pool_);
  kernels_.MatMul(layer.gate, embedding_rows_, gate, pool_);
  kernels_.MatMul(layer.up, embedding_rows_, up, pool_);
  kernels_.GatedActivation(config_.gate, gate, up, count * inner, gate, pool_);
  kernels_.PrepareRows(mode_, gate, count, inner, &feed_forward_rows_, pool_);
  kernels_.MatMul(layer.down, feed_forward_rows_, residual, pool_);
  kernels_.Add(hidden, residual, count * width, pool_);
}

absl::Status Decoder::Forward(RowKind kind, absl::Span<const int32_t> tokens, absl::Span<const PositionRun> runs,
                              Attention& attention, float* hidden, absl::FunctionRef<void(int32_t layer)> on_layer) {
  const int64_t rows = TotalRows(runs);
  RONDO_CHECK(static_cast<int64_t>(tokens.size()) == rows);
  if (absl::Status status = CheckTokens(tokens); !status.ok()) return status;
  embedding_rows_.kind = attended_rows_.kind = feed_forward_rows_.kind = kind;
  const int64_t q_width = int64_t{config_.q_heads} * config_.head_dim;
  const int64_t kv_width = int64_t{config_.kv_heads} * config_.head_dim;
  rope_.Fill(runs, cos_.Get(rows * (config_.rotated / 2)), sin_.Get(rows * (config_.rotated / 2)));
  float* q = q_.Get(rows * q_width);
  float* k = k_.Get(rows * kv_width);
  float* v = v_.Get(rows * kv_width);
  float* attended = attended_.Get(rows * q_width);
  pool_.Run(rows, [&](int64_t row, int) {
    kernels_.DequantiseRow(weights_.embedding, tokens[row], hidden + row * config_.embedding);
  });
  for (int32_t i = 0; i < config_.layers; ++i) {
    const LayerWeights& layer = weights_.layers[i];
    ForRowBlocks(rows, [&](int64_t first, int64_t count) { Project(layer, hidden, first, count); });
    if (absl::Status status = attention.Run(i, runs, q, k, v, attended); !status.ok()) return status;
    ForRowBlocks(rows, [&](int64_t first, int64_t count) {
      AddAttended(layer, hidden, first, count);
      AddFeedForward(layer, hidden + first * config_.embedding, count);
    });
    on_layer(i);
  }
  kernels_.RmsNorm(hidden, weights_.output_norm, config_.norm_eps, rows, config_.embedding, hidden, pool_);
  return absl::OkStatus();
}

void Decoder::Logits(const float* hidden, int64_t rows, float* logits) {
  embedding_rows_.kind = RowKind::kDrawn;
  ForRowBlocks(rows, [&](int64_t first, int64_t count) {
    kernels_.PrepareRows(mode_, hidden + first * config_.embedding, count, config_.embedding, &embedding_rows_, pool_);
    kernels_.MatMul(weights_.output, embedding_rows_, logits + first * config_.vocab, pool_);
  });
}

}  // namespace rondo
