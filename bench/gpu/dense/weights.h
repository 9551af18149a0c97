// Random weights as GGUF files have them, and their values in float64 by ggml's formulas: what the dense section
// multiplies by and is held to. Shares no code with the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "rondo/dense_kernels.h"

namespace rondo::gpu_check {

// The types that few-row products read, straight from the file's codes.
inline constexpr WeightType kFewRowTypes[] = {WeightType::kQ4_1, WeightType::kQ8_0, WeightType::kQ4_K};

const char* NameOf(WeightType type);  // "Q4_1"
int64_t RowBytes(WeightType type, int64_t cols);

// [rows][cols] in blocks; scales such that values are mostly below 1. The same for the same seed.
std::vector<uint8_t> RandomWeights(WeightType type, int64_t rows, int64_t cols, uint64_t seed);

// The values of one row.
std::vector<double> RowValues(WeightType type, const uint8_t* row, int64_t cols);

}  // namespace rondo::gpu_check
