// Scalar readers of GGUF weight blocks: half floats, codes, sub-block scales and dequantised rows, as ggml lays them
// out. The definition the vector readers must meet; used by the portable and reference kernels.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rondo/dense_kernels.h"

namespace rondo {
namespace {

// IEEE half to float, exact; a signalling NaN becomes quiet, as vcvtph2ps does. Integer arithmetic only, so flushing
// of denormals does not matter.
[[maybe_unused]] float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) {
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0u));
  }
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    const int shift = std::countl_zero(mantissa) - 21;  // brings the leading one to bit 10
    mantissa = (mantissa << shift) & 0x3ffu;
    exponent = static_cast<uint32_t>(1 - shift);
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

[[maybe_unused]] float LoadHalf(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return HalfToFloat(bits);
}

// Six-bit scale and minimum of sub-block j = 0..7 of a Q4_K or Q5_K block.
[[maybe_unused]] void KScaleMin(const uint8_t* q, int j, int* scale, int* minimum) {
  if (j < 4) {
    *scale = q[j] & 63;
    *minimum = q[j + 4] & 63;
  } else {
    *scale = (q[j + 4] & 15) | ((q[j - 4] >> 6) << 4);
    *minimum = (q[j + 4] >> 4) | ((q[j] >> 6) << 4);
  }
}

// A weight row as signed codes with a float scale per 16 and a float minimum per 32: element ~ scale * code + minimum.
// Offsets (8, 16, 32) are already inside the codes. Sub-block products are rounded to float.
struct CodeRow {
  int8_t* codes;   // [cols]
  float* scale;    // [cols / 16]
  float* minimum;  // [cols / 32], 0 where the type has none
};

[[maybe_unused]] bool HasMinimum(WeightType type) {
  return type == WeightType::kQ4_1 || type == WeightType::kQ5_1 || type == WeightType::kQ4_K ||
         type == WeightType::kQ5_K;
}

// Types of 32-blocks; `block` is the index of the block in the row.
[[maybe_unused]] void ReadBlock32(WeightType type, const uint8_t* p, int64_t block, const CodeRow& out) {
  int8_t* codes = out.codes + block * 32;
  float minimum = 0;
  const float d = LoadHalf(p);
  if (type == WeightType::kQ8_0) {
    std::memcpy(codes, p + 2, 32);
  } else {
    const bool five = type == WeightType::kQ5_0 || type == WeightType::kQ5_1;
    const bool affine = type == WeightType::kQ4_1 || type == WeightType::kQ5_1;
    const int offset = affine ? 0 : (five ? 16 : 8);
    p += 2;
    if (affine) {
      minimum = LoadHalf(p);
      p += 2;
    }
    uint32_t high = 0;
    if (five) {
      std::memcpy(&high, p, 4);
      p += 4;
    }
    for (int j = 0; j < 16; ++j) {
      const int low_code = (p[j] & 15) | static_cast<int>((high >> j) & 1) << 4;
      const int high_code = (p[j] >> 4) | static_cast<int>((high >> (j + 16)) & 1) << 4;
      codes[j] = static_cast<int8_t>(low_code - offset);
      codes[j + 16] = static_cast<int8_t>(high_code - offset);
    }
  }
  out.scale[block * 2] = out.scale[block * 2 + 1] = d;
  out.minimum[block] = minimum;
}

// Types of 256-blocks.
[[maybe_unused]] void ReadBlock256(WeightType type, const uint8_t* p, int64_t block, const CodeRow& out) {
  int8_t* codes = out.codes + block * 256;
  float* scale = out.scale + block * 16;
  float* minimum = out.minimum + block * 8;
  if (type == WeightType::kQ6_K) {
    const uint8_t* low = p;
    const uint8_t* high = p + 128;
    const int8_t* sub_scale = reinterpret_cast<const int8_t*>(p + 192);
    const float d = LoadHalf(p + 208);
    for (int half = 0; half < 2; ++half, low += 64, high += 32) {
      for (int l = 0; l < 32; ++l) {
        int8_t* y = codes + half * 128 + l;
        y[0] = static_cast<int8_t>(((low[l] & 15) | (high[l] & 3) << 4) - 32);
        y[32] = static_cast<int8_t>(((low[l + 32] & 15) | ((high[l] >> 2) & 3) << 4) - 32);
        y[64] = static_cast<int8_t>(((low[l] >> 4) | ((high[l] >> 4) & 3) << 4) - 32);
        y[96] = static_cast<int8_t>(((low[l + 32] >> 4) | (high[l] >> 6) << 4) - 32);
      }
    }
    for (int j = 0; j < 16; ++j) scale[j] = d * static_cast<float>(sub_scale[j]);
    for (int j = 0; j < 8; ++j) minimum[j] = 0;
    return;
  }
  const bool five = type == WeightType::kQ5_K;
  const float d = LoadHalf(p);
  const float dmin = LoadHalf(p + 2);
  const uint8_t* high = p + 16;
  const uint8_t* low = p + (five ? 48 : 16);
  for (int j = 0; j < 8; ++j) {
    int sub_scale, sub_minimum;
    KScaleMin(p + 4, j, &sub_scale, &sub_minimum);
    scale[j * 2] = scale[j * 2 + 1] = d * static_cast<float>(sub_scale);
    minimum[j] = -(dmin * static_cast<float>(sub_minimum));
    for (int l = 0; l < 32; ++l) {
      const int nibble = j % 2 == 0 ? low[(j / 2) * 32 + l] & 15 : low[(j / 2) * 32 + l] >> 4;
      codes[j * 32 + l] = static_cast<int8_t>(nibble | (five ? ((high[l] >> j) & 1) << 4 : 0));
    }
  }
}

// A whole row of a quantised type.
[[maybe_unused]] void ReadCodeRow(WeightType type, const std::byte* row, int64_t cols, const CodeRow& out) {
  const WeightTypeInfo* info = FindWeightType(type);
  const uint8_t* p = reinterpret_cast<const uint8_t*>(row);
  for (int64_t block = 0; block < cols / info->block_elements; ++block, p += info->block_bytes) {
    if (info->block_elements == 32) {
      ReadBlock32(type, p, block, out);
    } else {
      ReadBlock256(type, p, block, out);
    }
  }
}

// scale * code, then + minimum where the type has one: each operation rounded.
[[maybe_unused]] float DequantisedElement(WeightType type, const CodeRow& row, int64_t i) {
  const float product = row.scale[i / 16] * static_cast<float>(row.codes[i]);
  return HasMinimum(type) ? product + row.minimum[i / 32] : product;
}

// F32, F16 or BF16 element.
[[maybe_unused]] float PlainElement(WeightType type, const std::byte* row, int64_t i) {
  if (type == WeightType::kF32) {
    float value;
    std::memcpy(&value, row + i * 4, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, row + i * 2, 2);
  return type == WeightType::kF16 ? HalfToFloat(bits) : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace
}  // namespace rondo
