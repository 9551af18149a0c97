#include "model/decoder/reference_weights.h"

#include <cmath>
#include <cstring>

#include "base/check.h"

namespace rondo {
namespace {

using Bytes = const uint8_t*;

template <typename T>
T Load(Bytes p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

double Half(Bytes p) {
  const uint16_t bits = Load<uint16_t>(p);
  const double sign = bits >> 15 ? -1 : 1;
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

double BFloat16(Bytes p) {
  const uint32_t bits = uint32_t{Load<uint16_t>(p)} << 16;
  return Load<float>(reinterpret_cast<Bytes>(&bits));
}

int Low(int byte) { return byte & 15; }
int High(int byte) { return byte >> 4; }
int Bit(uint32_t word, int i) { return static_cast<int>(word >> i & 1); }

// Blocks of 32: element j < 16 is the low nibble of byte j, element j + 16 its high nibble.
void Q4_0(Bytes b, double* y) {
  for (int j = 0; j < 16; ++j) {
    y[j] = Half(b) * (Low(b[2 + j]) - 8);
    y[j + 16] = Half(b) * (High(b[2 + j]) - 8);
  }
}

void Q4_1(Bytes b, double* y) {
  const double d = Half(b), m = Half(b + 2);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * Low(b[4 + j]) + m;
    y[j + 16] = d * High(b[4 + j]) + m;
  }
}

void Q5_0(Bytes b, double* y) {
  const uint32_t fifth = Load<uint32_t>(b + 2);
  for (int j = 0; j < 16; ++j) {
    y[j] = Half(b) * (Low(b[6 + j]) + 16 * Bit(fifth, j) - 16);
    y[j + 16] = Half(b) * (High(b[6 + j]) + 16 * Bit(fifth, j + 16) - 16);
  }
}

void Q5_1(Bytes b, double* y) {
  const double d = Half(b), m = Half(b + 2);
  const uint32_t fifth = Load<uint32_t>(b + 4);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * (Low(b[8 + j]) + 16 * Bit(fifth, j)) + m;
    y[j + 16] = d * (High(b[8 + j]) + 16 * Bit(fifth, j + 16)) + m;
  }
}

void Q8_0(Bytes b, double* y) {
  for (int j = 0; j < 32; ++j) y[j] = Half(b) * static_cast<int8_t>(b[2 + j]);
}

// The 6-bit scale and minimum of sub-block s in 12 packed bytes.
void ScaleAndMin(Bytes q, int s, int* scale, int* min) {
  if (s < 4) {
    *scale = q[s] & 63;
    *min = q[s + 4] & 63;
  } else {
    *scale = Low(q[s + 4]) | q[s - 4] >> 6 << 4;
    *min = High(q[s + 4]) | q[s] >> 6 << 4;
  }
}

// Q4_K and Q5_K: eight sub-blocks of 32; `fifth` is null or holds bit s of element l of sub-block s in byte l.
void KBlock(Bytes b, Bytes fifth, Bytes codes, double* y) {
  const double d = Half(b), dmin = Half(b + 2);
  for (int s = 0; s < 8; ++s) {
    int scale = 0, min = 0;
    ScaleAndMin(b + 4, s, &scale, &min);
    for (int l = 0; l < 32; ++l) {
      const int byte = codes[s / 2 * 32 + l];
      const int code = (s % 2 == 0 ? Low(byte) : High(byte)) + (fifth != nullptr ? 16 * Bit(fifth[l], s) : 0);
      y[s * 32 + l] = d * scale * code - dmin * min;
    }
  }
}

// Two halves of 128; in each, four groups of 32 share the bytes of `high`, two bits a group.
void Q6_K(Bytes b, double* y) {
  const double d = Half(b + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, group = i % 128 / 32, l = i % 32;
    const int byte = b[half * 64 + group % 2 * 32 + l];
    const int low = group < 2 ? Low(byte) : High(byte);
    const int high = b[128 + half * 32 + l] >> 2 * group & 3;
    const int scale = static_cast<int8_t>(b[192 + i / 16]);
    y[i] = d * scale * ((low | high << 4) - 32);
  }
}

void Block(WeightType type, Bytes b, double* y) {
  switch (type) {
    case WeightType::kF32:
      y[0] = Load<float>(b);
      return;
    case WeightType::kF16:
      y[0] = Half(b);
      return;
    case WeightType::kBF16:
      y[0] = BFloat16(b);
      return;
    case WeightType::kQ4_0:
      return Q4_0(b, y);
    case WeightType::kQ4_1:
      return Q4_1(b, y);
    case WeightType::kQ5_0:
      return Q5_0(b, y);
    case WeightType::kQ5_1:
      return Q5_1(b, y);
    case WeightType::kQ8_0:
      return Q8_0(b, y);
    case WeightType::kQ4_K:
      return KBlock(b, nullptr, b + 16, y);
    case WeightType::kQ5_K:
      return KBlock(b, b + 16, b + 48, y);
    case WeightType::kQ6_K:
      return Q6_K(b, y);
  }
  RONDO_CHECK(false);
}

}  // namespace

void ReferenceRow(const WeightView& weight, int64_t row, double* out) {
  const WeightTypeInfo* info = FindWeightType(weight.type);
  RONDO_CHECK(info != nullptr);
  const auto* block = reinterpret_cast<Bytes>(weight.data) + static_cast<size_t>(row) * weight.row_bytes;
  for (int64_t i = 0; i < weight.cols; i += info->block_elements, block += info->block_bytes) {
    Block(weight.type, block, out + i);
  }
}

}  // namespace rondo
