// A loaded Llama-family model: configuration and weight views into the mapped file; made by model/, read by the
// decoder, the reference decoder and the worker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rondo/dense_kernels.h"

namespace rondo {

struct ModelConfig {
  std::string architecture;  // "llama"
  std::string name;          // general.name, or the file's name
  int32_t layers = 0;
  int32_t embedding = 0;      // width of the residual stream
  int32_t feed_forward = 0;   // width of the gated MLP
  int32_t q_heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t rotated = 0;        // leading dimensions of a head that RoPE turns
  int64_t context = 0;        // trained context, tokens
  int32_t vocab = 0;
  float norm_eps = 0;
  double rope_base = 10000;
  double rope_linear_factor = 1;      // positions are divided by it
  std::vector<float> rope_divisors;   // [rotated / 2], llama3 scaling; empty: all 1
  RopePairing rope_pairing = RopePairing::kInterleaved;
  GateKind gate = GateKind::kSilu;
  bool quantised = false;             // any quantised matrix: decides the default compute mode
};

struct LayerWeights {
  const float* attn_norm = nullptr;  // [embedding]
  WeightView wq, wk, wv, wo;
  const float* ffn_norm = nullptr;   // [embedding]
  WeightView gate, up, down;
};

struct ModelWeights {
  WeightView embedding;                // [vocab, embedding]
  std::vector<LayerWeights> layers;
  const float* output_norm = nullptr;  // [embedding]
  WeightView output;                   // [vocab, embedding]; the embedding itself where tied
};

}  // namespace rondo
