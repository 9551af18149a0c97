// Runs a Decoder over LocalAttention for the decoder's tests: one object a sequence.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "kernels/registry.h"
#include "model/decoder/decoder.h"
#include "model/decoder/local_attention.h"
#include "model/gguf/llama_loader.h"

namespace rondo {

inline AttentionShape ShapeOf(const ModelConfig& config, KvType type = KvType::kF32) {
  return {config.q_heads, config.kv_heads, config.head_dim, type,
          static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))};
}

inline LoadedModel LoadOrDie(const std::string& path) {
  auto file = GgufFile::Open(path);
  RONDO_CHECK(file.ok());
  auto model = LoadModel(*std::move(file));
  RONDO_CHECK(model.ok());
  return *std::move(model);
}

struct RunOptions {
  ComputeMode mode = ComputeMode::kF32;
  KvType kv = KvType::kF32;
  int threads = 1;
};

class Sequence {
 public:
  Sequence(const LoadedModel& model, const KernelSet& kernels, int64_t capacity, const RunOptions& options = {})
      : model_(model),
        pool_(options.threads),
        attention_(*kernels.attention,
                   *KvArena::Create(ShapeOf(model.config, options.kv), model.config.layers, BlocksFor(capacity)),
                   pool_),
        decoder_(model.config, model.weights, *kernels.dense, options.mode, pool_) {}

  // Hidden rows [tokens, embedding] of the next tokens.
  std::vector<float> Append(absl::Span<const int32_t> tokens) {
    std::vector<float> hidden(tokens.size() * model_.config.embedding);
    const PositionRun run{length_, length_ + static_cast<int64_t>(tokens.size())};
    RONDO_CHECK(decoder_.Forward(RowKind::kGiven, tokens, {run}, attention_, hidden.data(), [](int32_t) {}).ok());
    length_ = run.end;
    return hidden;
  }

  // Appends in chunks of `chunk` tokens (0: all at once).
  std::vector<float> AppendInChunks(absl::Span<const int32_t> tokens, size_t chunk) {
    std::vector<float> all;
    for (size_t at = 0; at < tokens.size();) {
      const size_t count = std::min(chunk == 0 ? tokens.size() : chunk, tokens.size() - at);
      const std::vector<float> part = Append(tokens.subspan(at, count));
      all.insert(all.end(), part.begin(), part.end());
      at += count;
    }
    return all;
  }

  std::vector<float> Logits(const std::vector<float>& hidden) {
    const int64_t rows = static_cast<int64_t>(hidden.size()) / model_.config.embedding;
    std::vector<float> logits(rows * model_.config.vocab);
    decoder_.Logits(hidden.data(), rows, logits.data());
    return logits;
  }

  // Logits of the last row of `hidden`.
  std::vector<float> LastLogits(const std::vector<float>& hidden) {
    return Logits(std::vector<float>(hidden.end() - model_.config.embedding, hidden.end()));
  }

 private:
  const LoadedModel& model_;
  ThreadPool pool_;
  LocalAttention attention_;
  Decoder decoder_;
  int64_t length_ = 0;
};

}  // namespace rondo
