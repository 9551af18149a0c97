// perplexity_bench --model FILE --text FILE [--tokens N] [--window N] [--threads N]
// Perplexity of both compute modes on the first tokens of a text, and their ratio: q8 may cost at most 1 %. Exit
// status 2 where it costs more.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/registry.h"
#include "model/decoder/decoder.h"
#include "model/decoder/local_attention.h"
#include "model/gguf/llama_loader.h"
#include "model/tokenizer/tokenizer.h"

namespace rondo {
namespace {

struct Options {
  std::string model, text;
  int64_t tokens = 4000, window = 1000;
  int threads = 2;
};

constexpr double kMostRatio = 1.01;

// -log softmax(logits)[id]
double Surprise(absl::Span<const float> logits, int32_t id) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - most);
  return std::log(sum) - (logits[id] - most);
}

// Windows are independent sequences of `window` tokens; the first token of each is given, the others are scored.
absl::StatusOr<double> Perplexity(const LoadedModel& model, const KernelSet& kernels, ComputeMode mode, KvType kv,
                                  absl::Span<const int32_t> ids, const Options& options) {
  const ModelConfig& config = model.config;
  const AttentionShape shape{config.q_heads, config.kv_heads, config.head_dim, kv,
                             static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)))};
  auto arena = KvArena::Create(shape, config.layers, BlocksFor(options.window));
  if (!arena.ok()) return arena.status();
  ThreadPool pool(options.threads);
  LocalAttention attention(*kernels.attention, *std::move(arena), pool);
  Decoder decoder(config, model.weights, *kernels.dense, mode, pool);
  std::vector<float> hidden(options.window * config.embedding);
  constexpr int64_t kLogitRows = 64;  // 64 rows of 49152 logits are 12 MB
  std::vector<float> logits(kLogitRows * config.vocab);
  double surprise = 0;
  int64_t scored = 0;
  for (int64_t at = 0; at + 1 < static_cast<int64_t>(ids.size()); at += options.window) {
    const auto window = ids.subspan(at, options.window);
    attention.Clear();
    const PositionRun run{0, static_cast<int64_t>(window.size())};
    if (auto status = decoder.Forward(RowKind::kGiven, window, {run}, attention, hidden.data(), [](int32_t) {});
        !status.ok()) {
      return status;
    }
    for (int64_t first = 0; first + 1 < run.end; first += kLogitRows) {
      const int64_t count = std::min(kLogitRows, run.end - 1 - first);
      decoder.Logits(hidden.data() + first * config.embedding, count, logits.data());
      for (int64_t i = 0; i < count; ++i) {
        surprise += Surprise(absl::MakeConstSpan(&logits[i * config.vocab], config.vocab), window[first + i + 1]);
      }
      scored += count;
    }
  }
  return std::exp(surprise / scored);
}

absl::StatusOr<double> Main(const Options& options) {
  auto file = GgufFile::Open(options.model);
  if (!file.ok()) return file.status();
  auto tokenizer = Tokenizer::FromGguf(**file);
  if (!tokenizer.ok()) return tokenizer.status();
  auto model = LoadModel(*std::move(file));
  if (!model.ok()) return model.status();
  if (options.window > model->config.context) return absl::InvalidArgumentError("the window exceeds the context");
  auto kernels = SelectKernels("");
  if (!kernels.ok()) return kernels.status();
  std::ifstream in(options.text, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) return absl::NotFoundError("cannot read " + options.text);
  text.resize(std::min(text.size(), static_cast<size_t>(options.tokens) * 16));  // no token is that long on average
  std::vector<int32_t> ids = (*tokenizer)->Encode(text, /*add_special=*/false);
  if (ids.size() < 2) return absl::InvalidArgumentError("the text is too short");
  ids.resize(std::min(ids.size(), static_cast<size_t>(options.tokens)));
  std::printf("%s, kernels %s, %zu tokens of %s in windows of %lld\n", model->config.name.c_str(),
              std::string(kernels->name).c_str(), ids.size(), options.text.c_str(),
              static_cast<long long>(options.window));
  const auto exact = Perplexity(*model, *kernels, ComputeMode::kF32, KvType::kF32, ids, options);
  if (!exact.ok()) return exact.status();
  std::printf("f32, kv f32:  perplexity %.4f\n", *exact);
  const auto quick = Perplexity(*model, *kernels, ComputeMode::kQ8, KvType::kBf16, ids, options);
  if (!quick.ok()) return quick.status();
  std::printf("q8, kv bf16:  perplexity %.4f\nratio %.5f (at most %.2f)\n", *quick, *quick / *exact, kMostRatio);
  return *quick / *exact;
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  rondo::Options options;
  CLI::App app("Perplexity of the f32 and q8 modes on a text, and their ratio");
  app.add_option("--model", options.model, "GGUF file")->required();
  app.add_option("--text", options.text, "text file")->required();
  app.add_option("--tokens", options.tokens, "tokens of the text to use")->check(CLI::Range(2, 1 << 24));
  app.add_option("--window", options.window, "tokens a window, within the trained context")
      ->check(CLI::Range(2, 1 << 24));
  app.add_option("--threads", options.threads, "threads")->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);
  const auto ratio = rondo::Main(options);
  if (!ratio.ok()) {
    std::fprintf(stderr, "perplexity_bench: %s\n", ratio.status().ToString().c_str());
    return 1;
  }
  return *ratio <= rondo::kMostRatio ? 0 : 2;
}
