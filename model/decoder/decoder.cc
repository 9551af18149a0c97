#include "model/decoder/decoder.h"

#include <algorithm>
#include <tuple>
#include <utility>

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

float* BlockOf(TensorBuffer& buffer, int64_t width) {
  return reinterpret_cast<float*>(buffer.Grow(kRowBlock * width * sizeof(float)));
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const ModelWeights& weights, const DenseKernels& kernels, ComputeMode mode,
                 ThreadPool& pool)
    : config_(config),
      weights_(weights),
      kernels_(kernels),
      mode_(mode),
      pool_(pool),
      rope_(config),
      cos_(kernels.memory()),
      sin_(kernels.memory()),
      q_(kernels.memory()),
      k_(kernels.memory()),
      v_(kernels.memory()),
      attended_(kernels.memory()),
      hidden_(kernels.memory()),
      logits_(kernels.memory()),
      normed_(kernels.memory()),
      residual_(kernels.memory()),
      gate_(kernels.memory()),
      up_(kernels.memory()) {}

absl::Status Decoder::CheckTokens(absl::Span<const int32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= config_.vocab) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", i, " has id ", tokens[i], ", the vocabulary has ", config_.vocab));
    }
  }
  return absl::OkStatus();
}

absl::Status Decoder::Reserve(int64_t rows) {
  if (kernels_.memory().is_host()) return absl::OkStatus();
  const int64_t q_width = int64_t{config_.q_heads} * config_.head_dim;
  const int64_t kv_width = int64_t{config_.kv_heads} * config_.head_dim;
  const std::tuple<StagedRows*, int64_t, int64_t> staged[] = {
      {&hidden_, rows, config_.embedding}, {&cos_, rows, config_.rotated / 2}, {&sin_, rows, config_.rotated / 2},
      {&q_, kRowBlock, q_width},           {&attended_, kRowBlock, q_width},   {&k_, kRowBlock, kv_width},
      {&v_, kRowBlock, kv_width},          {&logits_, 1, config_.vocab}};
  const std::pair<TensorBuffer*, int64_t> blocks[] = {{&normed_, config_.embedding},
                                                      {&residual_, config_.embedding},
                                                      {&gate_, config_.feed_forward},
                                                      {&up_, config_.feed_forward}};
  bool enough = true;
  int64_t floats = 0;
  for (const auto& [buffer, count, width] : staged) {
    enough = enough && buffer->TryReserve(count, width);
    floats += count * width;
  }
  for (const auto& [buffer, width] : blocks) {
    enough = enough && buffer->TryGrow(kRowBlock * width * sizeof(float));
    floats += kRowBlock * width;
  }
  if (enough) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("device memory: ", rows, " rows of the prompt need ",
                                                   floats * sizeof(float), " bytes beside weights, keys and values"));
}

// Queries, keys and values of `count` rows from `first` on, rotated.
void Decoder::Project(const LayerWeights& layer, const float* hidden, const float* cos, const float* sin, int64_t first,
                      int64_t count) {
  const int64_t width = config_.embedding;
  float* q = q_.Window(first, count);
  float* k = k_.Window(first, count);
  float* v = v_.Window(first, count);
  float* normed = BlockOf(normed_, width);
  kernels_.RmsNorm(hidden, layer.attn_norm, config_.norm_eps, count, width, normed, pool_);
  kernels_.PrepareRows(mode_, normed, count, width, &embedding_rows_, pool_);
  kernels_.MatMul(layer.wq, embedding_rows_, q, pool_);
  kernels_.MatMul(layer.wk, embedding_rows_, k, pool_);
  kernels_.MatMul(layer.wv, embedding_rows_, v, pool_);
  kernels_.Rope(q, count, config_.q_heads, config_.head_dim, config_.rope_pairing, cos, sin, config_.rotated, pool_);
  kernels_.Rope(k, count, config_.kv_heads, config_.head_dim, config_.rope_pairing, cos, sin, config_.rotated, pool_);
  StagedRows::KeepAll({&q_, &k_, &v_}, first, count);
}

void Decoder::AddAttendedAndFeedForward(const LayerWeights& layer, float* hidden, int64_t first, int64_t count) {
  const int64_t width = config_.embedding;
  const int64_t inner = config_.feed_forward;
  const int64_t q_width = int64_t{config_.q_heads} * config_.head_dim;
  float* normed = BlockOf(normed_, width);
  float* residual = BlockOf(residual_, width);
  float* gate = BlockOf(gate_, inner);
  float* up = BlockOf(up_, inner);
  kernels_.PrepareRows(mode_, attended_.Fetch(first, count), count, q_width, &attended_rows_, pool_);
  kernels_.MatMul(layer.wo, attended_rows_, residual, pool_);
  kernels_.AddRmsNorm(hidden, residual, layer.ffn_norm, config_.norm_eps, count, width, normed, pool_);
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
  const int64_t width = config_.embedding;
  const int64_t pairs = config_.rotated / 2;
  q_.Resize(rows, int64_t{config_.q_heads} * config_.head_dim);
  k_.Resize(rows, int64_t{config_.kv_heads} * config_.head_dim);
  v_.Resize(rows, int64_t{config_.kv_heads} * config_.head_dim);
  attended_.Resize(rows, int64_t{config_.q_heads} * config_.head_dim);
  rope_.Fill(runs, cos_.Resize(rows, pairs), sin_.Resize(rows, pairs));
  const float* cos = cos_.Fetch(0, rows);
  const float* sin = sin_.Fetch(0, rows);
  hidden_.PlaceOver(hidden, width);
  float* stream = hidden_.Window(0, rows);
  kernels_.DequantiseRows(weights_.embedding, tokens.data(), rows, stream, pool_);
  for (int32_t i = 0; i < config_.layers; ++i) {
    const LayerWeights& layer = weights_.layers[i];
    ForRowBlocks(rows, [&](int64_t first, int64_t count) {
      Project(layer, stream + first * width, cos + first * pairs, sin + first * pairs, first, count);
    });
    absl::Status status = attention.Run(i, runs, q_.host(), k_.host(), v_.host(), attended_.host());
    if (!status.ok()) return status;
    ForRowBlocks(rows, [&](int64_t first, int64_t count) {
      AddAttendedAndFeedForward(layer, stream + first * width, first, count);
    });
    on_layer(i);
  }
  kernels_.RmsNorm(stream, weights_.output_norm, config_.norm_eps, rows, width, stream, pool_);
  hidden_.Keep(0, rows);
  return absl::OkStatus();
}

void Decoder::Logits(const float* hidden, int64_t rows, float* logits) {
  embedding_rows_.kind = RowKind::kDrawn;
  hidden_.PlaceOver(const_cast<float*>(hidden), config_.embedding);  // only read
  logits_.PlaceOver(logits, config_.vocab);
  ForRowBlocks(rows, [&](int64_t first, int64_t count) {
    kernels_.PrepareRows(mode_, hidden_.Fetch(first, count), count, config_.embedding, &embedding_rows_, pool_);
    kernels_.MatMul(weights_.output, embedding_rows_, logits_.Window(first, count), pool_);
    logits_.Keep(first, count);
  });
}

}  // namespace rondo
