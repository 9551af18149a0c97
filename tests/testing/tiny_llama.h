// Writes a small random Llama model with a working vocabulary and chat template; used by law, ring and end-to-end
// tests.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace rondo {

// Sizes that divide nothing evenly: 9 query heads on 3 KV heads of 8, a query width (72) that is not the embedding's.
// GPU kernels want quantised sizes and a head_dim of 64.
struct TinyLlamaOptions {
  // Q4_1 and Q8_0 matrices where their rows are whole blocks of 32 (all but attn_output), embedding 96 and feed-forward
  // 160; otherwise F32, 90 and 150.
  bool quantised = false;
  bool half = false;  // attn_v, ffn_down and output in F16 instead
  int32_t layers = 5;
  int32_t q_heads = 9;
  int32_t kv_heads = 3;
  int32_t head_dim = 8;
  int32_t context = 4096;
  uint64_t seed = 1;
};

// The same options give the same bytes on every machine. The vocabulary has the 256 bytes (id = byte), common English
// merges, <|endoftext|> (bos), <|im_start|> and <|im_end|> (eos); control tokens always have logit 0, so that greedy
// generation runs to its length. The chat template is ChatML without a default system turn.
absl::Status WriteTinyLlama(const std::string& path, const TinyLlamaOptions& options);

}  // namespace rondo
