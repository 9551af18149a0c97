#include "tests/kernels/dense/weights.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace rondo::testing {
namespace {

struct Layout {
  int elements;
  int bytes;
  std::vector<int> halves;  // byte offsets of half floats
  std::vector<int> scales;  // byte ranges [begin, end) of sub-scales
};

Layout LayoutOf(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return {1, 4, {}, {}};
    case WeightType::kF16:
      return {1, 2, {0}, {}};
    case WeightType::kBF16:
      return {1, 2, {}, {}};
    case WeightType::kQ4_0:
      return {32, 18, {0}, {}};
    case WeightType::kQ4_1:
      return {32, 20, {0, 2}, {}};
    case WeightType::kQ5_0:
      return {32, 22, {0}, {}};
    case WeightType::kQ5_1:
      return {32, 24, {0, 2}, {}};
    case WeightType::kQ8_0:
      return {32, 34, {0}, {}};
    case WeightType::kQ4_K:
      return {256, 144, {0, 2}, {4, 16}};
    case WeightType::kQ5_K:
      return {256, 176, {0, 2}, {4, 16}};
    case WeightType::kQ6_K:
      return {256, 210, {208}, {192, 208}};
  }
  return {};
}

float Uniform(std::mt19937_64& random) { return static_cast<float>(random() >> 40) / 16777216.0f * 2 - 1; }

}  // namespace

std::string TypeName(WeightType type) { return std::string(FindWeightType(type)->name); }

uint16_t ToHalf(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double a = std::fabs(value);
  if (a >= 65504) return sign | 0x7bff;
  int exponent;
  std::frexp(a, &exponent);
  exponent = std::max(exponent - 1, -14);
  const int mantissa = static_cast<int>(a / std::ldexp(1.0, exponent - 10));
  return static_cast<uint16_t>(sign | (mantissa < 1024 ? mantissa : ((exponent + 15) << 10) + (mantissa - 1024)));
}

double FromHalf(uint16_t half) {
  const int exponent = (half >> 10) & 31, mantissa = half & 1023;
  double a = exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                            : std::ldexp(exponent == 0 ? mantissa : 1024 + mantissa, std::max(exponent, 1) - 25);
  return (half & 0x8000) != 0 ? -a : a;
}

std::vector<float> RandomFloats(int64_t n, std::mt19937_64& random, float magnitude) {
  std::vector<float> values(n);
  for (float& v : values) v = Uniform(random) * magnitude;
  return values;
}

Weights MakeWeights(WeightType type, int64_t rows, int64_t cols, Fill fill, std::mt19937_64& random) {
  const Layout layout = LayoutOf(type);
  Weights weights;
  const size_t row_bytes = cols / layout.elements * layout.bytes;
  weights.bytes.resize(rows * row_bytes);
  weights.view = {type, weights.bytes.data(), rows, cols, row_bytes};
  if (fill == Fill::kZero) return weights;
  uint8_t* p = reinterpret_cast<uint8_t*>(weights.bytes.data());
  for (size_t block = 0; block < weights.bytes.size() / layout.bytes; ++block, p += layout.bytes) {
    if (type == WeightType::kF32 || type == WeightType::kBF16 || type == WeightType::kF16) {
      float value = Uniform(random);
      if (fill == Fill::kExtreme) value = std::copysign(1.0f, value);
      if (fill == Fill::kDenormal) value *= type == WeightType::kF16 ? 1e-5f : 1e-39f;
      if (fill == Fill::kHuge) value *= 60000;
      if (type == WeightType::kF32) {
        std::memcpy(p, &value, 4);
      } else {
        const uint16_t bits =
            type == WeightType::kF16 ? ToHalf(value) : static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
        std::memcpy(p, &bits, 2);
      }
      continue;
    }
    for (int i = 0; i < layout.bytes; ++i) p[i] = static_cast<uint8_t>(random());
    if (fill == Fill::kExtreme) {
      // All ones, or all zero codes; for Q8_0 -128, the byte whose absolute value is no signed byte.
      const bool ones = random() % 4 != 0;
      std::memset(p, type == WeightType::kQ8_0 ? 0x80 : (ones ? 0xff : 0), layout.bytes);
      if (type == WeightType::kQ6_K) std::memset(p + 192, random() % 2 != 0 ? 0x80 : 0x7f, 16);
    }
    for (int at : layout.halves) {
      float scale = 0.01f + 0.005f * Uniform(random);
      if (at != 0 && type != WeightType::kQ6_K) scale *= -8;  // minima are mostly negative
      if (fill == Fill::kExtreme) scale = 1;
      if (fill == Fill::kDenormal) scale *= 1e-4f;
      if (fill == Fill::kHuge) scale = Uniform(random) * 65000;
      const uint16_t half = ToHalf(scale);
      std::memcpy(p + at, &half, 2);
    }
  }
  return weights;
}

std::vector<double> Decode(const WeightView& weight) {
  const Layout layout = LayoutOf(weight.type);
  std::vector<double> out;
  out.reserve(weight.rows * weight.cols);
  for (int64_t row = 0; row < weight.rows; ++row) {
    for (int64_t block = 0; block < weight.cols / layout.elements; ++block) {
      const uint8_t* p = reinterpret_cast<const uint8_t*>(weight.data) + row * weight.row_bytes + block * layout.bytes;
      auto half = [&](int at) { return FromHalf(static_cast<uint16_t>(p[at] | p[at + 1] << 8)); };
      auto bit = [](const uint8_t* bits, int i) { return (bits[i / 8] >> (i % 8)) & 1; };
      for (int i = 0; i < layout.elements; ++i) {
        const int j = i % 16;
        auto nibble = [&](const uint8_t* q) { return i < 16 ? q[j] % 16 : q[j] / 16; };
        double y = 0;
        switch (weight.type) {
          case WeightType::kF32: {
            float f;
            std::memcpy(&f, p, 4);
            y = f;
            break;
          }
          case WeightType::kF16:
            y = half(0);
            break;
          case WeightType::kBF16:
            y = std::bit_cast<float>(static_cast<uint32_t>(p[0] | p[1] << 8) << 16);
            break;
          case WeightType::kQ4_0:
            y = half(0) * (nibble(p + 2) - 8);
            break;
          case WeightType::kQ4_1:
            y = half(0) * nibble(p + 4) + half(2);
            break;
          case WeightType::kQ5_0:
            y = half(0) * (nibble(p + 6) + 16 * bit(p + 2, i) - 16);
            break;
          case WeightType::kQ5_1:
            y = half(0) * (nibble(p + 8) + 16 * bit(p + 4, i)) + half(2);
            break;
          case WeightType::kQ8_0:
            y = half(0) * static_cast<int8_t>(p[2 + i]);
            break;
          case WeightType::kQ4_K:
          case WeightType::kQ5_K: {
            const bool five = weight.type == WeightType::kQ5_K;
            const int sub = i / 32, l = i % 32;
            const uint8_t* s = p + 4;
            const int scale = sub < 4 ? s[sub] % 64 : s[sub + 4] % 16 + s[sub - 4] / 64 * 16;
            const int minimum = sub < 4 ? s[sub + 4] % 64 : s[sub + 4] / 16 + s[sub] / 64 * 16;
            const uint8_t byte = p[(five ? 48 : 16) + 32 * (sub / 2) + l];
            int code = sub % 2 == 0 ? byte % 16 : byte / 16;
            if (five) code += 16 * ((p[16 + l] >> sub) & 1);
            y = double{static_cast<float>(half(0) * scale)} * code - double{static_cast<float>(half(2) * minimum)};
            break;
          }
          case WeightType::kQ6_K: {
            const int n = i / 128, quarter = i % 128 / 32, l = i % 32;
            const uint8_t low = p[64 * n + 32 * (quarter % 2) + l];
            const int code = (quarter < 2 ? low % 16 : low / 16) + 16 * ((p[128 + 32 * n + l] >> (2 * quarter)) & 3);
            y = double{static_cast<float>(half(208) * static_cast<int8_t>(p[192 + i / 16]))} * (code - 32);
            break;
          }
        }
        out.push_back(y);
      }
    }
  }
  return out;
}

}  // namespace rondo::testing
