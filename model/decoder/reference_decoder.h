// The whole forward pass in double with plain loops, sharing no arithmetic with the kernels: the oracle of the
// decoder's tests and of `rondo verify`.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "rondo/model.h"

namespace rondo {

class ThreadPool;

class ReferenceDecoder {
 public:
  // All three must outlive the decoder. Keeps keys and values of all tokens in double: 16 bytes a KV element.
  ReferenceDecoder(const ModelConfig& config, const ModelWeights& weights, ThreadPool& pool);

  // The most that a decoder allocates which is given `prompt_tokens` at once and then single ones up to `total_tokens`,
  // having been told to Reserve them: keys, values, and the rows of one layer's widest moment. Weights stay in the
  // file.
  static uint64_t MemoryBytes(const ModelConfig& config, int64_t prompt_tokens, int64_t total_tokens, int threads);

  // Makes room for the keys and values of that many tokens: growing would hold them twice.
  void Reserve(int64_t total_tokens);

  // Appends tokens (not none, each in [0, vocab)) at the next positions and returns the logits [vocab] of the last one.
  // `keep_going` is called after each layer with the fraction done; false stops, the result is then empty and the
  // decoder must not be used again. About 135M parameters: 600 tokens a minute on two cores.
  std::vector<double> Append(absl::Span<const int32_t> tokens, absl::FunctionRef<bool(double fraction)> keep_going);

  int64_t tokens() const { return tokens_; }

 private:
  using Rows = std::vector<double>;  // [rows, width]

  Rows MatMul(const WeightView& weight, const Rows& x) const;
  Rows Norm(const Rows& x, const float* gain) const;
  void Rope(Rows& x, int32_t heads) const;
  Rows Attend(const Rows& q, const Rows& keys, const Rows& values) const;
  void Layer(const LayerWeights& layer, Rows& keys, Rows& values, Rows& x) const;

  const ModelConfig& config_;
  const ModelWeights& weights_;
  ThreadPool& pool_;
  std::vector<double> frequency_;    // [rotated / 2], radians a position
  std::vector<Rows> keys_, values_;  // by layer, [tokens, kv_heads * head_dim]
  int64_t tokens_ = 0;
};

}  // namespace rondo
