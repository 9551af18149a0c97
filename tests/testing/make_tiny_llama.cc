// make_tiny_llama --out FILE [--quantised] [--layers N] [--context N] [--seed S]: the tiny random model as a file, for
// end-to-end tests that start whole programs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "tests/testing/tiny_llama.h"

int main(int argc, char** argv) {
  CLI::App app("Writes a tiny random Llama model");
  std::string out;
  rondo::TinyLlamaOptions options;
  app.add_option("--out", out, "GGUF file to write")->required();
  app.add_flag("--quantised", options.quantised, "Q4_1 and Q8_0 weights");
  app.add_option("--layers", options.layers, "layers")->check(CLI::Range(1, 64));
  app.add_option("--context", options.context, "trained context, tokens")->check(CLI::Range(1, 1 << 24));
  app.add_option("--seed", options.seed, "seed of the weights");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = rondo::WriteTinyLlama(out, options);
  if (!status.ok()) std::fprintf(stderr, "make_tiny_llama: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
