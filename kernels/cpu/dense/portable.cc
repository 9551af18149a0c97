// The definition of the CPU family's bits: plain loops, one output element at a time, inner index ascending.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/dense/block_codes.h"
#include "kernels/cpu/dense/cpu_dense.h"
#include "kernels/cpu/dense/elementwise.h"
#include "kernels/cpu/dense/factories.h"

namespace rondo {
namespace {

// A chunk of a row, unpacked: 4096 codes with their scales fit the scratch.
constexpr int64_t kChunk = 4096;

struct RowChunk {
  CodeRow codes;
  float* plain;  // [kChunk]
};

RowChunk LayOut(std::byte* scratch) {
  float* floats = reinterpret_cast<float*>(scratch);
  RowChunk chunk;
  chunk.plain = floats;
  chunk.codes.scale = floats + kChunk;
  chunk.codes.minimum = chunk.codes.scale + kChunk / 16;
  chunk.codes.codes = reinterpret_cast<int8_t*>(chunk.codes.minimum + kChunk / 32);
  return chunk;
}

void Dequantise(WeightType type, const std::byte* row, int64_t begin, int64_t end, const RowChunk& chunk, float* out) {
  const WeightTypeInfo* info = FindWeightType(type);
  const std::byte* p = row + begin / info->block_elements * info->block_bytes;
  if (!info->quantised) {
    for (int64_t i = 0; i < end - begin; ++i) out[i] = PlainElement(type, p, i);
    return;
  }
  ReadCodeRow(type, p, end - begin, chunk.codes);
  for (int64_t i = 0; i < end - begin; ++i) out[i] = DequantisedElement(type, chunk.codes, i);
}

void DequantiseWhole(WeightType type, const std::byte* row, int64_t cols, float* out) {
  alignas(64) std::byte scratch[kChunk * 8];
  const RowChunk chunk = LayOut(scratch);
  for (int64_t begin = 0; begin < cols; begin += kChunk) {
    Dequantise(type, row, begin, std::min(cols, begin + kChunk), chunk, out + begin);
  }
}

void MatMulF32(const MatMulTile& tile, std::byte* scratch) {
  const WeightView& weight = *tile.weight;
  const RowChunk chunk = LayOut(scratch);
  for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
    for (int64_t begin = 0; begin < weight.cols; begin += kChunk) {
      const int64_t end = std::min(weight.cols, begin + kChunk);
      Dequantise(weight.type, weight.data + row * weight.row_bytes, begin, end, chunk, chunk.plain);
      for (int64_t token = tile.token_begin; token < tile.token_end; ++token) {
        const float* x = tile.rows->x + token * weight.cols;
        float& y = tile.y[token * weight.rows + row];
        float sum = begin == 0 ? 0.0f : y;
        for (int64_t k = begin; k < end; ++k) sum = std::fma(chunk.plain[k - begin], x[k], sum);
        y = sum;
      }
    }
  }
}

int32_t Dot(const int8_t* a, const int8_t* b, int n) {
  int32_t sum = 0;
  for (int i = 0; i < n; ++i) sum += int32_t{a[i]} * int32_t{b[i]};
  return sum;
}

void MatMulQ8(const MatMulTile& tile, std::byte* scratch) {
  const WeightView& weight = *tile.weight;
  const WeightTypeInfo* info = FindWeightType(weight.type);
  const RowChunk chunk = LayOut(scratch);
  const CodeRow& w = chunk.codes;
  const int64_t blocks = weight.cols / 32;
  const bool halves = weight.type == WeightType::kQ6_K;
  const bool minimum = HasMinimum(weight.type);
  for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
    for (int64_t begin = 0; begin < weight.cols; begin += kChunk) {
      const int64_t end = std::min(weight.cols, begin + kChunk);
      ReadCodeRow(weight.type, weight.data + row * weight.row_bytes + begin / info->block_elements * info->block_bytes,
                  end - begin, w);
      for (int64_t token = tile.token_begin; token < tile.token_end; ++token) {
        float& y = tile.y[token * weight.rows + row];
        float sum = begin == 0 ? 0.0f : y;
        for (int64_t b = 0; b < (end - begin) / 32; ++b) {
          const int64_t block = token * blocks + begin / 32 + b;
          const int8_t* codes = tile.rows->codes.data() + block * 32;
          const float s = tile.rows->scale[block];
          if (halves) {
            sum = std::fma(w.scale[2 * b] * s, static_cast<float>(Dot(w.codes + b * 32, codes, 16)), sum);
            sum = std::fma(w.scale[2 * b + 1] * s, static_cast<float>(Dot(w.codes + b * 32 + 16, codes + 16, 16)), sum);
          } else {
            sum = std::fma(w.scale[2 * b] * s, static_cast<float>(Dot(w.codes + b * 32, codes, 32)), sum);
          }
          if (minimum) sum = std::fma(w.minimum[b], tile.rows->scaled_sum[block], sum);
        }
        y = sum;
      }
    }
  }
}

constexpr DenseOps kOps = {
    .name = "portable",
    .panel_rows = 1,
    .tile_tokens = 256,
    .quantise = QuantiseBlocks<simd::Scalar>,
    .matmul_f32 = MatMulF32,
    .matmul_q8 = MatMulQ8,
    .dequantise = DequantiseWhole,
    .rms_norm = RmsNormRow<simd::Scalar>,
    .rope = RopeRow<simd::Scalar>,
    .gate = GateElements<simd::Scalar>,
    .add = AddElements<simd::Scalar>,
};

}  // namespace

const DenseKernels* PortableDense() {
  static const CpuDense kernels(kOps);
  return &kernels;
}

}  // namespace rondo
