#include "model/gguf/llama_loader.h"

#include <cmath>
#include <cstring>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/text.h"

namespace rondo {
namespace {

// Hands out the tensors of one file, each with its exact shape, and remembers which were asked for. Keeps the first
// error.
class Tensors {
 public:
  explicit Tensors(const GgufFile& file) : file_(file) {}

  const absl::Status& status() const { return status_; }

  WeightView Matrix(const std::string& name, int64_t rows, int64_t cols) {
    const GgufTensor* tensor = Take(name, {cols, rows});
    if (tensor == nullptr) return {};
    const WeightTypeInfo& info = *FindWeightType(tensor->type);
    quantised_ |= info.quantised;
    return {tensor->type, tensor->data, rows, cols, static_cast<size_t>(cols / info.block_elements * info.block_bytes)};
  }

  const float* Vector(const std::string& name, int64_t size) {
    const GgufTensor* tensor = Take(name, {size});
    if (tensor == nullptr) return nullptr;
    if (tensor->type != WeightType::kF32) {
      Fail(absl::UnimplementedError(absl::StrCat(file_.name(), ": tensor ", name, " has type ",
                                                 Sv(FindWeightType(tensor->type)->name), "; F32 is supported for it")));
      return nullptr;
    }
    return reinterpret_cast<const float*>(tensor->data);
  }

  bool Has(const std::string& name) const { return file_.FindTensor(name) != nullptr; }
  bool quantised() const { return quantised_; }

  void WarnOfUnused() const {
    size_t unused = 0;
    std::string_view first;
    for (const GgufTensor& tensor : file_.tensors()) {
      if (taken_.contains(tensor.name)) continue;
      if (unused++ == 0) first = tensor.name;
    }
    if (unused > 0) LogWarning(file_.name(), ": ", unused, " tensors are not used, the first is ", first);
  }

 private:
  const GgufTensor* Take(const std::string& name, std::vector<int64_t> shape) {
    if (!status_.ok()) return nullptr;
    const GgufTensor* tensor = file_.FindTensor(name);
    GgufTensor wanted;
    wanted.dims = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), wanted.dim.begin());
    if (tensor == nullptr) {
      Fail(absl::InvalidArgumentError(absl::StrCat(file_.name(), ": tensor ", name, " is missing")));
      return nullptr;
    }
    if (tensor->dim != wanted.dim) {  // a trailing 1 more or less is the same shape
      Fail(absl::InvalidArgumentError(absl::StrCat(file_.name(), ": tensor ", name, " has shape ", ShapeText(*tensor),
                                                   "; ", ShapeText(wanted), " is expected")));
      return nullptr;
    }
    taken_.insert(tensor->name);
    return tensor;
  }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const GgufFile& file_;
  absl::Status status_;
  std::unordered_set<std::string_view> taken_;
  bool quantised_ = false;
};

LayerWeights LoadLayer(Tensors& tensors, const ModelConfig& config, int32_t layer) {
  const auto name = [layer](const char* part) { return absl::StrCat("blk.", layer, ".", part, ".weight"); };
  const int64_t width = config.embedding;
  const int64_t q_width = int64_t{config.q_heads} * config.head_dim;
  const int64_t kv_width = int64_t{config.kv_heads} * config.head_dim;
  LayerWeights weights;
  weights.attn_norm = tensors.Vector(name("attn_norm"), width);
  weights.wq = tensors.Matrix(name("attn_q"), q_width, width);
  weights.wk = tensors.Matrix(name("attn_k"), kv_width, width);
  weights.wv = tensors.Matrix(name("attn_v"), kv_width, width);
  weights.wo = tensors.Matrix(name("attn_output"), width, q_width);
  weights.ffn_norm = tensors.Vector(name("ffn_norm"), width);
  weights.gate = tensors.Matrix(name("ffn_gate"), config.feed_forward, width);
  weights.up = tensors.Matrix(name("ffn_up"), config.feed_forward, width);
  weights.down = tensors.Matrix(name("ffn_down"), width, config.feed_forward);
  return weights;
}

// Tensors that change the result where they exist: ignoring them would give wrong answers without a word.
absl::Status RefuseBiases(const GgufFile& file) {
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string_view name = tensor.name;
    if (name.starts_with("blk.") && name.ends_with(".bias")) {
      return absl::UnimplementedError(
          absl::StrCat(file.name(), ": tensor ", Sv(name), ": biases are not supported in architecture llama"));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadRopeDivisors(const GgufFile& file, Tensors& tensors, ModelConfig* config) {
  if (!tensors.Has("rope_freqs.weight")) return absl::OkStatus();
  const int64_t pairs = config->rotated / 2;
  const float* divisors = tensors.Vector("rope_freqs.weight", pairs);
  if (divisors == nullptr) return tensors.status();
  config->rope_divisors.assign(divisors, divisors + pairs);
  for (int64_t i = 0; i < pairs; ++i) {
    if (!(std::isfinite(divisors[i]) && divisors[i] > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(file.name(), ": rope_freqs.weight[", i, "] is ", divisors[i],
                                                     "; it must be finite and above 0"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedModel> LoadModel(std::shared_ptr<const GgufFile> file) {
  absl::StatusOr<ModelConfig> config = LoadConfig(*file);
  if (!config.ok()) return config.status();
  if (!file->has_data()) {
    return absl::FailedPreconditionError(absl::StrCat(file->name(), ": a header alone; its weights are not here"));
  }
  if (absl::Status status = RefuseBiases(*file); !status.ok()) return status;
  LoadedModel model{*std::move(config), {}, file};
  Tensors tensors(*file);
  model.weights.embedding = tensors.Matrix("token_embd.weight", model.config.vocab, model.config.embedding);
  for (int32_t layer = 0; layer < model.config.layers && tensors.status().ok(); ++layer) {
    model.weights.layers.push_back(LoadLayer(tensors, model.config, layer));
  }
  model.weights.output_norm = tensors.Vector("output_norm.weight", model.config.embedding);
  model.weights.output = tensors.Has("output.weight")
                             ? tensors.Matrix("output.weight", model.config.vocab, model.config.embedding)
                             : model.weights.embedding;
  if (!tensors.status().ok()) return tensors.status();
  if (absl::Status status = LoadRopeDivisors(*file, tensors, &model.config); !status.ok()) return status;
  model.config.quantised = tensors.quantised();
  tensors.WarnOfUnused();
  return model;
}

}  // namespace rondo
