// Random weights in every GGUF block format, and an independent reader of them in double, for the dense kernels' tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "rondo/dense_kernels.h"

namespace rondo::testing {

inline constexpr WeightType kAllWeightTypes[] = {
    WeightType::kF32,  WeightType::kF16,  WeightType::kBF16, WeightType::kQ4_0, WeightType::kQ4_1, WeightType::kQ5_0,
    WeightType::kQ5_1, WeightType::kQ8_0, WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K};

std::string TypeName(WeightType type);

struct Weights {
  WeightView view;
  std::vector<std::byte> bytes;
  Weights() = default;
  Weights(Weights&&) = default;
  Weights& operator=(Weights&&) = default;
};

enum class Fill {
  kRandom,   // codes uniform, scales around 0.01
  kExtreme,  // every code and sub-scale at an end of its range, scales 1
  kZero,
  kDenormal,  // half scales below the normal half range
  kHuge,      // scales near the largest half
};

// Rows start at any byte, as in a mapped file: `bytes` holds exactly the weights, so reading past them is found by
// ASan.
Weights MakeWeights(WeightType type, int64_t rows, int64_t cols, Fill fill, std::mt19937_64& random);

// The weight's elements in double, by the table of block layouts, written for this test alone. K-quant sub-scales are
// products rounded to float; nothing else is rounded.
std::vector<double> Decode(const WeightView& weight);

// A half of the given value, rounded toward zero; and back.
uint16_t ToHalf(float value);
double FromHalf(uint16_t half);

std::vector<float> RandomFloats(int64_t n, std::mt19937_64& random, float magnitude = 1);

}  // namespace rondo::testing
