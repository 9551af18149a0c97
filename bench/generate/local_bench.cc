// local_bench --model FILE [--prompt N] [--decode N] [--threads N] [--mode q8|f32] [--kv bf16|f32] [--chunk N] [--json]
// Prefill and decode speed of one rank without any cluster, and where the time goes. The prompt is arbitrary ids: the
// arithmetic does not depend on them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "bench/generate/timed_kernels.h"
#include "kernels/registry.h"
#include "model/decoder/decoder.h"
#include "model/decoder/local_attention.h"
#include "model/gguf/llama_loader.h"
#include "model/sampler/sampler.h"

namespace rondo {
namespace {

struct Options {
  std::string model, mode = "q8", kv = "bf16";
  int64_t prompt = 512, decode = 32, chunk = 2048;
  int threads = 2;
  bool json = false;
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void ReportJson(const char* what, int64_t tokens, double seconds, const KernelTimes& times) {
  std::printf("{\"what\":\"%s\",\"tokens\":%lld,\"seconds\":%.6f,\"tokens_per_s\":%.3f,\"shares\":{", what,
              static_cast<long long>(tokens), seconds, tokens / seconds);
  for (size_t i = 0; i < times.seconds.size(); ++i) {
    std::printf("%s\"%s\":%.4f", i == 0 ? "" : ",", std::string(kKernelKindNames[i]).c_str(),
                times.seconds[i] / seconds);
  }
  std::printf("}}\n");
}

void Report(const char* what, int64_t tokens, double seconds, const KernelTimes& times, bool json) {
  if (json) return ReportJson(what, tokens, seconds, times);
  std::printf("%s: %lld tokens in %.3f s: %.1f tokens/s, %.3f ms a token\n", what, static_cast<long long>(tokens),
              seconds, tokens / seconds, 1e3 * seconds / tokens);
  double rest = seconds;
  for (size_t i = 0; i < times.seconds.size(); ++i) {
    std::printf("  %-22s %5.1f %%\n", std::string(kKernelKindNames[i]).c_str(), 100 * times.seconds[i] / seconds);
    rest -= times.seconds[i];
  }
  std::printf("  %-22s %5.1f %%\n", "rest", 100 * rest / seconds);
}

class Bench {
 public:
  Bench(const LoadedModel& model, const KernelSet& kernels, KvArena arena, ComputeMode mode, int threads, bool json)
      : model_(model),
        dense_(*kernels.dense, times_),
        attention_kernels_(*kernels.attention, times_),
        pool_(threads),
        attention_(attention_kernels_, std::move(arena), pool_),
        decoder_(model.config, model.weights, dense_, mode, pool_),
        logits_(model.config.vocab),
        json_(json) {}

  absl::Status Prefill(int64_t tokens, int64_t chunk) {
    std::vector<int32_t> ids(tokens);
    for (int64_t i = 0; i < tokens; ++i) ids[i] = static_cast<int32_t>(i * 7919 % model_.config.vocab);
    times_ = {};
    const double start = Now();
    for (int64_t at = 0; at < tokens; at += chunk) {
      const int64_t count = std::min(chunk, tokens - at);
      if (absl::Status status = Append(RowKind::kGiven, absl::MakeConstSpan(ids).subspan(at, count)); !status.ok())
        return status;
    }
    Report("prefill", tokens, Now() - start, times_, json_);
    return absl::OkStatus();
  }

  // Greedy, every step with logits and a draw.
  absl::Status Decode(int64_t steps) {
    times_ = {};
    const double start = Now();
    for (int64_t step = 0; step < steps; ++step) {
      const absl::StatusOr<int32_t> id = Sample({}, 0, step, logits_);
      if (!id.ok()) return id.status();
      if (absl::Status status = Append(RowKind::kDrawn, {*id}); !status.ok()) return status;
    }
    Report("decode", steps, Now() - start, times_, json_);
    return absl::OkStatus();
  }

 private:
  absl::Status Append(RowKind kind, absl::Span<const int32_t> ids) {
    const PositionRun run{length_, length_ + static_cast<int64_t>(ids.size())};
    hidden_.resize(std::max(hidden_.size(), ids.size() * model_.config.embedding));
    absl::Status status = decoder_.Forward(kind, ids, {run}, attention_, hidden_.data(), [](int32_t) {});
    if (!status.ok()) return status;
    length_ = run.end;
    decoder_.Logits(hidden_.data() + (ids.size() - 1) * model_.config.embedding, 1, logits_.data());
    return absl::OkStatus();
  }

  const LoadedModel& model_;
  KernelTimes times_;
  TimedDense dense_;
  TimedAttention attention_kernels_;
  ThreadPool pool_;
  LocalAttention attention_;
  Decoder decoder_;
  std::vector<float> hidden_, logits_;
  int64_t length_ = 0;
  const bool json_;
};

absl::Status Main(const Options& options) {
  auto file = GgufFile::Open(options.model);
  if (!file.ok()) return file.status();
  auto model = LoadModel(*std::move(file));
  if (!model.ok()) return model.status();
  auto kernels = SelectKernels("");
  if (!kernels.ok()) return kernels.status();
  const ModelConfig& config = model->config;
  const AttentionShape shape{config.q_heads, config.kv_heads, config.head_dim, *ParseKvType(options.kv),
                             static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)))};
  auto arena = KvArena::Create(shape, config.layers, BlocksFor(options.prompt + options.decode));
  if (!arena.ok()) return arena.status();
  std::printf(options.json ? "{\"model\":\"%s\",\"kernels\":\"%s\",\"compute\":\"%s\",\"kv\":\"%s\",\"threads\":%d}\n"
                           : "%s, kernels %s, mode %s, kv %s, %d threads\n",
              config.name.c_str(), std::string(kernels->name).c_str(), options.mode.c_str(), options.kv.c_str(),
              options.threads);
  Bench bench(*model, *kernels, *std::move(arena), *ParseComputeMode(options.mode), options.threads, options.json);
  if (absl::Status status = bench.Prefill(options.prompt, options.chunk); !status.ok()) return status;
  return options.decode > 0 ? bench.Decode(options.decode) : absl::OkStatus();
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  rondo::Options options;
  CLI::App app("Prefill and decode speed of one rank, with the share of each kind of kernel");
  app.add_option("--model", options.model, "GGUF file")->required();
  app.add_option("--prompt", options.prompt, "prompt tokens: the depth at which decoding starts")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  app.add_option("--decode", options.decode, "tokens to decode")->check(CLI::Range(0, 1 << 20));
  app.add_option("--chunk", options.chunk, "prefill chunk")->check(CLI::Range(1, 1 << 24));
  app.add_option("--threads", options.threads, "threads")->check(CLI::Range(1, 1024));
  app.add_option("--mode", options.mode, "compute mode")->check(CLI::IsMember({"q8", "f32"}));
  app.add_option("--kv", options.kv, "KV type")->check(CLI::IsMember({"bf16", "f32"}));
  app.add_flag("--json", options.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = rondo::Main(options);
  if (!status.ok()) std::fprintf(stderr, "local_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
