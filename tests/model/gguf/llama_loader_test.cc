#include "model/gguf/llama_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/model/gguf/tiny_llama.h"

namespace rondo {
namespace {

using testing::HasSubstr;

absl::StatusOr<LoadedModel> Load(const std::string& path) {
  const auto file = GgufFile::Open(path);
  if (!file.ok()) return file.status();
  return LoadModel(*file);
}
std::string Refused(const TinyLlama& model) {
  const absl::Status status = Load(model.Write()).status();
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

TEST(LlamaLoader, ReadsTheConfiguration) {
  const LoadedModel model = Load(TinyLlama().Write()).value();
  const ModelConfig& config = model.config;
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.name, "tiny");
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.embedding, 64);
  EXPECT_EQ(config.feed_forward, 96);
  EXPECT_EQ(config.q_heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rotated, 16);
  EXPECT_EQ(config.context, 128);
  EXPECT_EQ(config.vocab, 260);
  EXPECT_EQ(config.norm_eps, 1e-5f);
  EXPECT_EQ(config.rope_base, 10000);
  EXPECT_EQ(config.rope_linear_factor, 1);
  EXPECT_TRUE(config.rope_divisors.empty());
  EXPECT_EQ(config.rope_pairing, RopePairing::kInterleaved);
  EXPECT_FALSE(config.quantised);
  // Tied: the output is the embedding.
  EXPECT_EQ(model.weights.output.data, model.weights.embedding.data);
  EXPECT_EQ(model.weights.layers[1].down.rows, 64);
  EXPECT_EQ(model.weights.layers[1].down.cols, 96);
  EXPECT_EQ(model.weights.layers[1].down.row_bytes, 96 * 4u);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(model.weights.layers[1].ffn_norm),
            model.file->FindTensor("blk.1.ffn_norm.weight")->data);
}

TEST(LlamaLoader, EachMatrixKeepsItsOwnType) {
  TinyLlama tiny;
  tiny.tensors["blk.0.attn_q.weight"].type = WeightType::kQ4_0;
  tiny.tensors["blk.1.attn_q.weight"].type = WeightType::kQ8_0;
  tiny.tensors["token_embd.weight"].type = WeightType::kF16;
  tiny.tensors["output.weight"] = {{64, 260}, WeightType::kBF16};
  const LoadedModel model = Load(tiny.Write()).value();
  EXPECT_EQ(model.weights.layers[0].wq.type, WeightType::kQ4_0);
  EXPECT_EQ(model.weights.layers[0].wq.row_bytes, 36u);
  EXPECT_EQ(model.weights.layers[1].wq.type, WeightType::kQ8_0);
  EXPECT_EQ(model.weights.layers[1].wq.row_bytes, 68u);
  EXPECT_EQ(model.weights.embedding.type, WeightType::kF16);
  EXPECT_EQ(model.weights.output.type, WeightType::kBF16);
  EXPECT_TRUE(model.config.quantised);
}

TEST(LlamaLoader, OptionalKeysHaveDefaults) {
  TinyLlama tiny;
  for (const char* key : {"llama.rope.dimension_count", "llama.attention.head_count_kv"}) tiny.numbers.erase(key);
  tiny.floats.erase("llama.rope.freq_base");
  for (const char* name :
       {"blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.1.attn_k.weight", "blk.1.attn_v.weight"}) {
    tiny.tensors[name].dims = {64, 64};
  }
  const LoadedModel model = Load(tiny.Write()).value();
  EXPECT_EQ(model.config.kv_heads, 4);
  EXPECT_EQ(model.config.rotated, 16);
  EXPECT_EQ(model.config.rope_base, 10000);
}

TEST(LlamaLoader, PerLayerNumbersMustAgree) {
  TinyLlama tiny;
  tiny.numbers.erase("llama.feed_forward_length");
  tiny.more = [](GgufWriter& writer) { writer.I32s("llama.feed_forward_length", {96, 96}); };
  EXPECT_EQ(Load(tiny.Write()).value().config.feed_forward, 96);
  tiny.more = [](GgufWriter& writer) { writer.I32s("llama.feed_forward_length", {96, 64}); };
  EXPECT_THAT(Refused(tiny), HasSubstr("differs between layers"));
  tiny.more = [](GgufWriter& writer) { writer.I32s("llama.feed_forward_length", {96}); };
  EXPECT_THAT(Refused(tiny), HasSubstr("1 values for 2 layers"));
}

TEST(LlamaLoader, RefusesNumbersOutOfBounds) {
  const struct {
    const char* key;
    uint32_t value;
    const char* message;
  } cases[] = {
      {"llama.block_count", 0, "llama.block_count is 0"},
      {"llama.block_count", 1u << 31, "from 1 to 4096"},
      {"llama.block_count", 3, "blk.2.attn_norm.weight is missing"},
      {"llama.context_length", 0, "llama.context_length is 0"},
      {"llama.embedding_length", 0, "llama.embedding_length is 0"},
      {"llama.embedding_length", UINT32_MAX, "llama.embedding_length is 4294967295"},
      {"llama.embedding_length", 66, "no multiple of llama.attention.head_count"},
      {"llama.embedding_length", 128, "tensor token_embd.weight has shape [64, 260]; [128, 260] is expected"},
      {"llama.feed_forward_length", 0, "llama.feed_forward_length is 0"},
      {"llama.feed_forward_length", 95, "ffn_gate.weight has shape [64, 96]; [64, 95] is expected"},
      {"llama.attention.head_count", 0, "llama.attention.head_count is 0"},
      {"llama.attention.head_count_kv", 0, "llama.attention.head_count_kv is 0"},
      {"llama.attention.head_count_kv", 3, "no multiple of llama.attention.head_count_kv 3"},
      {"llama.attention.key_length", 15, "equal lengths"},
      {"llama.attention.value_length", 8, "equal lengths"},
      {"llama.rope.dimension_count", 15, "must be even"},
      {"llama.rope.dimension_count", 18, "at most the head size 16"},
      {"llama.rope.dimension_count", 0, "llama.rope.dimension_count is 0"},
      {"llama.vocab_size", 259, "llama.vocab_size is 259, but token_embd.weight has 260 rows"},
      {"llama.expert_count", 8, "experts"},
      {"split.count", 2, "split"},
  };
  for (const auto& [key, value, message] : cases) {
    TinyLlama tiny;
    tiny.numbers[key] = value;
    EXPECT_THAT(Refused(tiny), HasSubstr(message)) << key << " " << value;
  }
}

TEST(LlamaLoader, RefusesFloatsThatAreNoNumbers) {
  for (const char* key :
       {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base", "llama.rope.scaling.factor"}) {
    for (const float value : {0.0f, -1.0f, INFINITY, NAN}) {
      TinyLlama tiny;
      tiny.floats[key] = value;
      EXPECT_THAT(Refused(tiny), HasSubstr(std::string(key) + " is ")) << value;
    }
  }
}

TEST(LlamaLoader, NamesWhatIsMissing) {
  for (const char* key : {"llama.block_count", "llama.context_length", "llama.embedding_length",
                          "llama.feed_forward_length", "llama.attention.head_count"}) {
    TinyLlama tiny;
    tiny.numbers.erase(key);
    EXPECT_THAT(Refused(tiny), HasSubstr(std::string("key ") + key + " is missing"));
  }
  for (const auto& [name, tensor] : TinyLlama().tensors) {
    TinyLlama tiny;
    tiny.tensors.erase(name);
    EXPECT_THAT(Refused(tiny), HasSubstr("tensor " + name + " is missing"));
  }
  TinyLlama none;
  none.tensors.clear();
  EXPECT_THAT(Refused(none), HasSubstr("no tensor at all"));
}

TEST(LlamaLoader, EveryShapeIsExact) {
  for (const auto& [name, tensor] : TinyLlama().tensors) {
    TinyLlama tiny;
    tiny.tensors[name].dims.back() += 1;
    EXPECT_THAT(Refused(tiny), HasSubstr(name)) << name;
    tiny = TinyLlama();
    tiny.tensors[name].dims.push_back(2);
    EXPECT_THAT(Refused(tiny), HasSubstr(name)) << name;
  }
}

TEST(LlamaLoader, NamesWhatItDoesNotSupport) {
  TinyLlama other;
  other.texts["general.architecture"] = "mamba";
  EXPECT_EQ(Load(other.Write()).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Refused(other), HasSubstr("\"mamba\"; \"llama\" is supported"));
  TinyLlama half_norm;
  half_norm.tensors["output_norm.weight"].type = WeightType::kF16;
  EXPECT_THAT(Refused(half_norm), HasSubstr("output_norm.weight has type F16"));
  TinyLlama bias;
  bias.tensors["blk.0.attn_q.bias"] = {{64}};
  EXPECT_THAT(Refused(bias), HasSubstr("blk.0.attn_q.bias"));
}

TEST(LlamaLoader, IgnoresTensorsItDoesNotKnow) {
  TinyLlama tiny;
  tiny.tensors["mm.projector.weight"] = {{64, 3}};
  EXPECT_TRUE(Load(tiny.Write()).ok());
}

TEST(LlamaLoader, RopeScaling) {
  TinyLlama tiny;
  tiny.floats["llama.rope.scaling.factor"] = 4;
  EXPECT_EQ(Load(tiny.Write()).value().config.rope_linear_factor, 4);  // linear where the type is absent
  tiny.texts["llama.rope.scaling.type"] = "linear";
  EXPECT_EQ(Load(tiny.Write()).value().config.rope_linear_factor, 4);
  tiny.texts["llama.rope.scaling.type"] = "none";
  EXPECT_EQ(Load(tiny.Write()).value().config.rope_linear_factor, 1);
  for (const char* type : {"yarn", "longrope", "Linear", ""}) {
    tiny.texts["llama.rope.scaling.type"] = type;
    EXPECT_THAT(Refused(tiny), HasSubstr("llama.rope.scaling.type is \"" + std::string(type) + "\"")) << type;
  }
  TinyLlama old;
  old.floats["llama.rope.scale_linear"] = 2;
  EXPECT_EQ(Load(old.Write()).value().config.rope_linear_factor, 2);
}

TEST(LlamaLoader, RopeDivisorsComeFromTheirTensor) {
  TinyLlama tiny;
  std::vector<float> divisors = {1, 1, 1, 1.5f, 2, 4, 8, 8};
  const auto bytes = [&] { return std::string(reinterpret_cast<const char*>(divisors.data()), 32); };
  tiny.tensors["rope_freqs.weight"] = {{8}};
  tiny.data["rope_freqs.weight"] = bytes();
  EXPECT_EQ(Load(tiny.Write()).value().config.rope_divisors, divisors);
  divisors[3] = 0;
  tiny.data["rope_freqs.weight"] = bytes();
  EXPECT_THAT(Refused(tiny), HasSubstr("rope_freqs.weight[3] is 0"));
  tiny.tensors["rope_freqs.weight"] = {{4}};
  tiny.data["rope_freqs.weight"] = std::string(16, '\0');
  EXPECT_THAT(Refused(tiny), HasSubstr("rope_freqs.weight has shape [4]; [8] is expected"));
}

// Llama 3's rule, by wave length: below original / high unchanged, above original / low divided by the factor, between
// them blended. The numbers are those the model was made with (its config.json).
std::vector<double> Llama3Divisors(int head_dim, double base, double factor, double low, double high, double original) {
  std::vector<double> divisors;
  for (int pair = 0; pair < head_dim / 2; ++pair) {
    const double wave = 2 * M_PI * std::pow(base, 2.0 * pair / head_dim);
    const double blend = std::clamp((original / wave - low) / (high - low), 0.0, 1.0);
    divisors.push_back(1 / ((1 - blend) / factor + blend));
  }
  return divisors;
}

TEST(LlamaLoader, Llama3DivisorsAreThoseOfTheRule) {
  // The published setting: pairs 0 to 14 unchanged, 15 to 17 blended, 18 to 31 divided by 32.
  const std::vector<double> published = Llama3Divisors(64, 500000, 32, 1, 4, 8192);
  for (int pair = 0; pair < 32; ++pair) {
    EXPECT_EQ(published[pair] == 1, pair <= 14) << pair;
    EXPECT_EQ(published[pair] == 32, pair >= 18) << pair;
  }
  const LoadedModel model = Load(UnpackTestFile("tiny/llama3-rope/llama3-rope.gguf.gz").value()).value();
  const std::vector<double> expected = Llama3Divisors(64, 500000, 32, 1, 4, 256);
  ASSERT_EQ(model.config.rope_divisors.size(), 32u);
  for (int pair = 0; pair < 32; ++pair) {
    EXPECT_NEAR(model.config.rope_divisors[pair], expected[pair], 1e-5 * expected[pair]) << pair;
  }
  EXPECT_EQ(model.config.rope_base, 500000);
  EXPECT_NE(model.weights.output.data, model.weights.embedding.data);
}

TEST(LlamaLoader, LoadsTheTinyGqaModel) {
  const LoadedModel model = Load(UnpackTestFile("tiny/llama-gqa/llama-gqa.gguf.gz").value()).value();
  EXPECT_EQ(model.config.q_heads, 9);
  EXPECT_EQ(model.config.kv_heads, 3);
  EXPECT_EQ(model.config.head_dim, 8);
  EXPECT_EQ(model.config.vocab, 264);
  EXPECT_TRUE(CheckModel(model).ok());
}

TEST(LlamaLoader, HeaderAloneGivesTheConfigurationAndNoWeights) {
  const auto file = GgufFile::FromHeader(TinyLlama().Writer().Header(), "header").value();
  EXPECT_EQ(LoadConfig(*file).value().layers, 2);
  EXPECT_EQ(LoadModel(file).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(LlamaLoader, LoadsSmollm2) {
  const std::optional<std::string> path = OutsideModel();
  if (!path.has_value()) GTEST_SKIP() << "RONDO_TEST_MODEL is not set: no SmolLM2-135M-Instruct.Q4_1.gguf";
  const LoadedModel model = Load(*path).value();
  EXPECT_EQ(model.config.layers, 30);
  EXPECT_EQ(model.config.head_dim, 64);
  EXPECT_EQ(model.config.context, 8192);
  EXPECT_EQ(model.config.vocab, 49152);
  EXPECT_TRUE(model.config.quantised);
  EXPECT_EQ(model.weights.embedding.type, WeightType::kQ8_0);
  EXPECT_EQ(model.weights.layers[29].down.type, WeightType::kQ4_1);
  EXPECT_EQ(CheckModel(model), absl::OkStatus());
}

}  // namespace
}  // namespace rondo
