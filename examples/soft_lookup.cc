// soft_lookup: attention at its smallest. A query looks itself up among three keys and gets a mixture of their values,
// weighted by how well each key fits, through the same kernels that the ring runs on a million keys.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/aligned.h"
#include "base/thread_pool.h"
#include "kernels/registry.h"
#include "rondo/attention_kernels.h"

namespace {

constexpr int kKeys = 3;
constexpr int kDim = 3;
constexpr float kQuery[kDim] = {1, 0, 1};
constexpr float kKey[kKeys][kDim] = {{1, 0, 1}, {0, 1, 0}, {1, 1, 0}};

// One query, three keys: the values are the rows of the identity, so what comes out is the weights themselves.
void Lookup(const rondo::AttentionKernels& kernels, float scale, float* weights, float* lse) {
  rondo::AttentionShape shape;
  shape.q_heads = shape.kv_heads = 1;
  shape.head_dim = kDim;
  shape.scale = scale;

  // Keys and values live in canonical blocks of 256 tokens: K, then V. Rows past `tokens` are never read.
  const auto memory = rondo::MakeAligned<std::byte>(rondo::KvBlockBytes(shape));
  auto* const k = reinterpret_cast<float*>(memory.get());
  auto* const v = reinterpret_cast<float*>(memory.get() + rondo::KvBlockValueOffset(shape));
  for (int key = 0; key < kKeys; ++key) {
    std::memcpy(k + key * kDim, kKey[key], sizeof(kKey[key]));
    for (int d = 0; d < kDim; ++d) v[key * kDim + d] = d == key ? 1.0f : 0.0f;
  }
  const rondo::KvBlock block{memory.get(), 0, kKeys};

  // A partial result: unnormalised output, running maximum, sum. With more blocks there would be more, to be merged.
  float o[kDim], m[1], l[1];
  const rondo::PartialNode node{{0, 0}, o, m, l};
  rondo::MaskSpec mask;
  mask.causal = false;
  rondo::ThreadPool pool(1);
  kernels.Attend(shape, {kQuery, kKeys - 1, 1}, {&block, 1}, mask, {&node, 1}, pool);
  kernels.Finish(shape, 1, node, weights, lse, pool);
}

}  // namespace

int main(int argc, char** argv) {
  double temperature = 1;
  bool json = false;
  CLI::App app(
      "Attention at its smallest: a dictionary that answers with a mixture.\n\n"
      "Examples:\n"
      "  soft_lookup\n"
      "  soft_lookup --temperature 0.1   # nearly a plain dictionary: the best key wins\n"
      "  soft_lookup --temperature 10    # nearly an average: every key counts\n",
      "soft_lookup");
  app.add_option("--temperature", temperature, "Divides the scores, 0.001 to 1000000")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            // CLI::Range lets NaN through, which is in no range.
            if (end != text.c_str() && *end == '\0' && value >= 1e-3 && value <= 1e6) return {};
            return text + " is not a number from 0.001 to 1000000";
          },
          ""))
      ->capture_default_str();
  app.add_flag("--json", json, "Print one JSON object");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "soft_lookup: %s\n  see: soft_lookup --help\n", error.what());
    return 2;
  }

  const absl::StatusOr<rondo::KernelSet> kernels = rondo::SelectKernels("");
  if (!kernels.ok()) {
    std::fprintf(stderr, "soft_lookup: %s\n", std::string(kernels.status().message()).c_str());
    return 1;
  }
  const float scale = static_cast<float>(1 / (std::sqrt(3.0) * temperature));
  float weights[kDim], lse = 0;
  Lookup(*kernels->attention, scale, weights, &lse);

  if (json) {
    const nlohmann::ordered_json out{{"weights", weights},
                                     {"lse", lse},
                                     {"temperature", temperature},
                                     {"scale", scale},
                                     {"kernels", std::string(kernels->name)}};
    std::printf("%s\n", out.dump().c_str());
    return 0;
  }
  std::printf("query      [1, 0, 1]\n");
  for (int key = 0; key < kKeys; ++key) {
    float score = 0;
    for (int d = 0; d < kDim; ++d) score += kQuery[d] * kKey[key][d];
    std::printf("key %d      [%g, %g, %g]   q.k * scale = %.4f   weight %.2f  %s\n", key, kKey[key][0], kKey[key][1],
                kKey[key][2], score * scale, weights[key],
                std::string(static_cast<size_t>(std::lround(weights[key] * 40)), '#').c_str());
  }
  return 0;
}
