#include "tests/testing/tiny_llama.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/gguf_writer.h"

namespace rondo {
namespace {

const char* const kControl[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
const char* const kMerges[] = {"t h", "th e", "i n", "a n",  "e r",  "o n", "r e", "e n", "a t", "o u", "o r",
                               "i s", "i t",  "e s", "an d", "in g", "l l", "s t", "o f", "t o", "h e", "w h"};
constexpr const char* kChatTemplate =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
    "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// splitmix64; near-normal numbers as sums of uniforms, so that libm has no say in the bytes.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  float Normal() {
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(Next() >> 11) * 0x1p-53;
    return static_cast<float>(sum - 6);
  }

 private:
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

// IEEE half of a magnitude in the normal half range (or 0), cut towards zero: block scales need no better.
uint16_t ToHalf(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const int exponent = static_cast<int>(bits >> 23 & 255) - 127 + 15;
  if (exponent <= 0) return 0;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | static_cast<uint32_t>(exponent) << 10 | (bits >> 13 & 1023));
}

int Code(float x, float scale, int least, int most) {
  return std::clamp(static_cast<int>(std::floor(x / scale + 0.5f)), least, most);
}

std::string Q4_1(const float* x) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float scale = (*high - *low) / 15;
  std::string block = LittleEndian(ToHalf(scale)) + LittleEndian(ToHalf(*low));
  for (int j = 0; j < 16; ++j) {
    block += static_cast<char>(Code(x[j] - *low, scale, 0, 15) | Code(x[j + 16] - *low, scale, 0, 15) << 4);
  }
  return block;
}

std::string Q8_0(const float* x) {
  float most = 0;
  for (int j = 0; j < 32; ++j) most = std::max(most, std::fabs(x[j]));
  const float scale = most > 0 ? most / 127 : 1;
  std::string block = LittleEndian(ToHalf(scale));
  for (int j = 0; j < 32; ++j) block += static_cast<char>(Code(x[j], scale, -127, 127));
  return block;
}

class Builder {
 public:
  explicit Builder(const TinyLlamaOptions& options) : options_(options), random_(options.seed) {}

  // Random normal numbers of deviation `gain` / sqrt(cols); the last `zero_rows` rows are zeros.
  void Matrix(const std::string& name, int rows, int cols, float gain, WeightType quantised, int zero_rows = 0) {
    std::vector<float> values(static_cast<size_t>(rows) * cols);
    const float deviation = gain / std::sqrt(static_cast<float>(cols));
    for (float& value : values) value = random_.Normal() * deviation;
    std::fill(values.end() - static_cast<ptrdiff_t>(zero_rows) * cols, values.end(), 0.0f);
    const std::vector<uint64_t> dims = {static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)};
    if (quantised == WeightType::kF16) {
      std::string halves;
      for (const float value : values) halves += LittleEndian(ToHalf(value));
      file.Tensor(name, dims, quantised, std::move(halves));
      return;
    }
    if (!options_.quantised || cols % 32 != 0) {
      file.F32Tensor(name, dims, values);
      return;
    }
    std::string bytes;
    for (size_t i = 0; i < values.size(); i += 32) {
      bytes += quantised == WeightType::kQ4_1 ? Q4_1(&values[i]) : Q8_0(&values[i]);
    }
    file.Tensor(name, dims, quantised, std::move(bytes));
  }

  void Gain(const std::string& name, int width) {
    std::vector<float> values(width);
    for (float& value : values) value = 1 + 0.1f * random_.Normal();
    file.F32Tensor(name, {static_cast<uint64_t>(width)}, values);
  }

  GgufWriter file;

 private:
  const TinyLlamaOptions& options_;
  Random random_;
};

}  // namespace

absl::Status WriteTinyLlama(const std::string& path, const TinyLlamaOptions& options) {
  const int embedding = options.quantised ? 96 : 90, inner = options.quantised ? 160 : 150;
  const int controls = static_cast<int>(std::size(kControl));
  const int first_control = 256 + static_cast<int>(std::size(kMerges)), vocab = first_control + controls;
  Builder builder(options);
  builder.file.String("general.architecture", "llama")
      .String("general.name", options.quantised ? "tiny-llama-quantised" : "tiny-llama")
      .U32("llama.context_length", options.context)
      .U32("llama.embedding_length", embedding)
      .U32("llama.block_count", options.layers)
      .U32("llama.feed_forward_length", inner)
      .U32("llama.attention.head_count", options.q_heads)
      .U32("llama.attention.head_count_kv", options.kv_heads)
      .U32("llama.attention.key_length", options.head_dim)
      .U32("llama.attention.value_length", options.head_dim)
      .U32("llama.rope.dimension_count", options.head_dim)
      .F32("llama.rope.freq_base", 10000)
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .ByteVocabulary({std::begin(kMerges), std::end(kMerges)}, {std::begin(kControl), std::end(kControl)})
      .U32("tokenizer.ggml.bos_token_id", first_control)
      .U32("tokenizer.ggml.eos_token_id", first_control + 2)
      .Bool("tokenizer.ggml.add_bos_token", false)
      .String("tokenizer.chat_template", kChatTemplate);
  constexpr WeightType kFine = WeightType::kQ8_0, kCoarse = WeightType::kQ4_1;
  const WeightType half_or_fine = options.half ? WeightType::kF16 : kFine;
  // Gains: queries and keys large enough that attention picks some keys over others.
  builder.Matrix("token_embd.weight", vocab, embedding, std::sqrt(static_cast<float>(embedding)), kFine);
  for (int i = 0; i < options.layers; ++i) {
    const std::string layer = absl::StrCat("blk.", i, ".");
    builder.Gain(layer + "attn_norm.weight", embedding);
    builder.Matrix(layer + "attn_q.weight", options.q_heads * options.head_dim, embedding, 1.5f, kCoarse);
    builder.Matrix(layer + "attn_k.weight", options.kv_heads * options.head_dim, embedding, 1.5f, kCoarse);
    builder.Matrix(layer + "attn_v.weight", options.kv_heads * options.head_dim, embedding, 1, half_or_fine);
    builder.Matrix(layer + "attn_output.weight", embedding, options.q_heads * options.head_dim, 1, kFine);
    builder.Gain(layer + "ffn_norm.weight", embedding);
    builder.Matrix(layer + "ffn_gate.weight", inner, embedding, 1, kCoarse);
    builder.Matrix(layer + "ffn_up.weight", inner, embedding, 1, kCoarse);
    builder.Matrix(layer + "ffn_down.weight", embedding, inner, 1, half_or_fine);
  }
  builder.Gain("output_norm.weight", embedding);
  builder.Matrix("output.weight", vocab, embedding, 2, half_or_fine, controls);
  return builder.file.WriteTo(path);
}

}  // namespace rondo
