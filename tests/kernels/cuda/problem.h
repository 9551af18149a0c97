// A random attention problem for the CUDA kernels, its answer in float64 by plain loops, and memory laid out the ways
// the kernels accept; used by their tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/attention/args.h"
#include "kernels/cuda/attention/element_type.h"

namespace rondo::cuda {

float ToFloat(ElementType type, uint16_t bits);
uint16_t FromFloat(ElementType type, float value);

struct Problem {
  ElementType type = ElementType::kBf16;
  int head_dim = 64;
  int q_heads = 1;
  int kv_heads = 1;
  int64_t rows = 0;
  int64_t first_position = 0;
  int64_t tokens = 0;
  bool causal = true;
  int64_t window = 0;
  int64_t visible_begin = 0;
  int64_t visible_end = int64_t{1} << 60;
  float softcap = 0;
  bool alibi = false;
  bool sinks = false;
  float amplitude = 1;  // of q: how far scores reach

  std::string Describe() const;
  bool Sees(int64_t position, int64_t key) const;  // the mask in words
  float scale() const;
};

// Values of a problem. Keys that no row sees hold NaN, in K and V.
struct Tensors {
  Tensors(const Problem& problem, uint64_t seed);
  std::vector<uint16_t> q;           // [rows, q_heads, head_dim]
  std::vector<uint16_t> k, v;        // [tokens, kv_heads, head_dim]
  std::vector<float> slopes, sinks;  // [q_heads]
};

struct Answer {
  std::vector<double> out;  // [rows, q_heads, head_dim]
  std::vector<double> lse;  // [rows, q_heads]
};

Answer PlainLoops(const Problem& problem, const Tensors& tensors);

// The largest difference between `out` and the answer, relative to the root mean square of the answer, and of lse,
// relative to it where that is more than 1. NaN where no NaN belongs counts as infinite.
struct Errors {
  double out = 0;
  double lse = 0;
};
Errors Compare(const Answer& answer, const std::vector<float>& out, const std::vector<float>& lse);

// What rounding inputs' probabilities to 16 bits may cost.
bool Acceptable(ElementType type, const Errors& errors);

}  // namespace rondo::cuda
