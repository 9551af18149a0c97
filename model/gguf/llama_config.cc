// LoadConfig: the hyper-parameters of a llama GGUF file, each against the bounds that the rest of Rondo relies on.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "model/gguf/llama_loader.h"

namespace rondo {
namespace {

// Far above any model there is, low enough that products of two fit in 64 bits and a loop over one ends.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = 1 << 22;
constexpr int64_t kMaxHeads = 1 << 14;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxContext = int64_t{1} << 31;
constexpr int64_t kMaxVocabulary = 1 << 26;

// Reads keys of one file, keeping the first error; values after it are meaningless.
class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file) {}

  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  template <typename... Parts>
  void Bad(const Parts&... parts) {
    Fail(absl::InvalidArgumentError(absl::StrCat(file_.name(), ": ", StrCatPart(parts)...)));
  }
  template <typename... Parts>
  void Unsupported(const Parts&... parts) {
    Fail(absl::UnimplementedError(absl::StrCat(file_.name(), ": ", StrCatPart(parts)...)));
  }

  template <typename T>
  T Take(absl::StatusOr<T> value) {
    if (value.ok()) return *std::move(value);
    Fail(value.status());
    return T();
  }

  int64_t Bounded(std::string_view key, int64_t value, int64_t least, int64_t most) {
    if (status_.ok() && (value < least || value > most)) {
      Bad(key, " is ", value, "; it must be from ", least, " to ", most);
    }
    return value;
  }
  int64_t Required(std::string_view key, int64_t least, int64_t most) {
    return Bounded(key, Take(file_.GetU32(key)), least, most);
  }
  int64_t Optional(std::string_view key, int64_t fallback, int64_t least, int64_t most) {
    return Bounded(key, Take(file_.FindU32(key)).value_or(static_cast<uint32_t>(fallback)), least, most);
  }
  // A number, or an array of one number a layer where all are the same.
  int64_t SameForAllLayers(std::string_view key, int64_t layers, int64_t least, int64_t most) {
    const GgufValue* value = file_.Find(key);
    if (value == nullptr || value->type != GgufType::kArray) return Required(key, least, most);
    const std::vector<int32_t> each = Take(file_.GetI32s(key));
    if (!status_.ok()) return 0;
    if (static_cast<int64_t>(each.size()) != layers) {
      Bad(key, " has ", each.size(), " values for ", layers, " layers");
      return 0;
    }
    for (const int32_t one : each) {
      if (one != each[0]) Unsupported(key, " differs between layers (", each[0], " and ", one, ")");
    }
    return Bounded(key, each[0], least, most);
  }
  double Positive(std::string_view key, double value) {
    if (status_.ok() && !(std::isfinite(value) && value > 0))
      Bad(key, " is ", value, "; it must be finite and above 0");
    return value;
  }

 private:
  const GgufFile& file_;
  absl::Status status_;
};

void ReadRopeScaling(const GgufFile& file, Reader& reader, ModelConfig* config) {
  const std::string_view type = reader.Take(file.FindString("llama.rope.scaling.type")).value_or("linear");
  const std::optional<float> factor = reader.Take(file.FindF32("llama.rope.scaling.factor"));
  const std::optional<float> old_factor = reader.Take(file.FindF32("llama.rope.scale_linear"));
  if (type == "none") return;
  if (type != "linear") {
    reader.Unsupported("llama.rope.scaling.type is \"", type,
                       "\"; \"none\", \"linear\" and llama3 (a rope_freqs.weight tensor) are supported");
    return;
  }
  config->rope_linear_factor = reader.Positive("llama.rope.scaling.factor", factor.value_or(old_factor.value_or(1)));
}

void ReadHeads(const GgufFile& file, Reader& reader, ModelConfig* config) {
  const int64_t layers = config->layers;
  config->q_heads = reader.SameForAllLayers("llama.attention.head_count", layers, 1, kMaxHeads);
  config->kv_heads = config->q_heads;
  if (file.Has("llama.attention.head_count_kv")) {
    config->kv_heads = reader.SameForAllLayers("llama.attention.head_count_kv", layers, 1, kMaxHeads);
  }
  if (!reader.status().ok()) return;
  if (config->q_heads % config->kv_heads != 0) {
    reader.Bad("llama.attention.head_count is ", config->q_heads, ", no multiple of llama.attention.head_count_kv ",
               config->kv_heads);
    return;
  }
  if (!file.Has("llama.attention.key_length") && config->embedding % config->q_heads != 0) {
    reader.Bad("llama.embedding_length is ", config->embedding, ", no multiple of llama.attention.head_count ",
               config->q_heads, ", and there is no llama.attention.key_length");
    return;
  }
  const int64_t natural = config->embedding / config->q_heads;
  config->head_dim = reader.Optional("llama.attention.key_length", natural, 1, kMaxHeadDim);
  const int64_t value_dim = reader.Optional("llama.attention.value_length", natural, 1, kMaxHeadDim);
  config->rotated = reader.Optional("llama.rope.dimension_count", config->head_dim, 2, kMaxHeadDim);
  if (!reader.status().ok()) return;
  if (value_dim != config->head_dim) {
    reader.Unsupported("llama.attention.value_length is ", value_dim, " and the key length ", config->head_dim,
                       "; equal lengths are supported");
  }
  if (config->head_dim % 2 != 0) {
    reader.Bad("the head size is ", config->head_dim, "; rotary positions need an even one");
  }
  if (config->rotated > config->head_dim || config->rotated % 2 != 0) {
    reader.Bad("llama.rope.dimension_count is ", config->rotated, "; it must be even and at most the head size ",
               config->head_dim);
  }
}

void ReadVocabulary(const GgufFile& file, Reader& reader, ModelConfig* config) {
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) {
    reader.Bad("tensor token_embd.weight is missing",
               file.tensors().empty() ? " (the file holds no tensor at all)" : "");
    return;
  }
  const int64_t rows = reader.Bounded("the number of rows of token_embd.weight", embedding->dim[1], 1, kMaxVocabulary);
  const int64_t stated = reader.Optional("llama.vocab_size", rows, 1, kMaxVocabulary);
  if (reader.status().ok() && stated != rows) {
    reader.Bad("llama.vocab_size is ", stated, ", but token_embd.weight has ", rows, " rows");
  }
  const GgufValue* tokens = file.Find("tokenizer.ggml.tokens");
  if (tokens != nullptr && static_cast<int64_t>(tokens->count) != rows) {
    reader.Bad("tokenizer.ggml.tokens has ", tokens->count, " entries, but token_embd.weight has ", rows, " rows");
  }
  config->vocab = static_cast<int32_t>(rows);
}

}  // namespace

absl::StatusOr<ModelConfig> LoadConfig(const GgufFile& file) {
  Reader reader(file);
  ModelConfig config;
  config.architecture = std::string(reader.Take(file.GetString("general.architecture")));
  if (!reader.status().ok()) return reader.status();
  if (config.architecture != "llama") {
    reader.Unsupported("general.architecture is \"", config.architecture, "\"; \"llama\" is supported");
    return reader.status();
  }
  if (const auto parts = file.Find("split.count"); parts != nullptr) {
    reader.Unsupported("the model is split over several files (split.count); join them first");
    return reader.status();
  }
  config.name = std::string(reader.Take(file.FindString("general.name")).value_or(file.name()));
  config.layers = reader.Required("llama.block_count", 1, kMaxLayers);
  config.embedding = reader.Required("llama.embedding_length", 1, kMaxWidth);
  config.context = reader.Required("llama.context_length", 1, kMaxContext);
  if (!reader.status().ok()) return reader.status();
  config.feed_forward = reader.SameForAllLayers("llama.feed_forward_length", config.layers, 1, kMaxWidth);
  ReadHeads(file, reader, &config);
  ReadVocabulary(file, reader, &config);
  config.norm_eps = static_cast<float>(reader.Positive(
      "llama.attention.layer_norm_rms_epsilon", reader.Take(file.GetF32("llama.attention.layer_norm_rms_epsilon"))));
  config.rope_base =
      reader.Positive("llama.rope.freq_base", reader.Take(file.FindF32("llama.rope.freq_base")).value_or(10000));
  ReadRopeScaling(file, reader, &config);
  const std::optional<uint32_t> experts = reader.Take(file.FindU32("llama.expert_count"));
  if (experts.value_or(0) != 0)
    reader.Unsupported("llama.expert_count is ", *experts, "; mixtures of experts are not supported");
  // The converter permutes the query and key rows of this architecture so that pairs lie side by side.
  config.rope_pairing = RopePairing::kInterleaved;
  config.gate = GateKind::kSilu;
  if (!reader.status().ok()) return reader.status();
  return config;
}

}  // namespace rondo
