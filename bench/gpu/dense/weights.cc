#include "bench/gpu/dense/weights.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

namespace rondo::gpu_check {
namespace {

struct Block {
  int64_t elements, bytes;
};

Block BlockOf(WeightType type) {
  switch (type) {
    case WeightType::kQ4_1:
      return {32, 20};  // scale, minimum, 16 bytes of nibbles
    case WeightType::kQ8_0:
      return {32, 34};  // scale, 32 signed bytes
    case WeightType::kQ4_K:
      return {256, 144};  // scale, scale of minima, 12 bytes of six-bit pairs, 128 bytes of nibbles
    default:
      std::abort();
  }
}

double HalfAt(const uint8_t* bytes) {
  const int bits = bytes[0] | bytes[1] << 8;
  const double size = std::ldexp(1024 + (bits & 1023), (bits >> 10 & 31) - 25);  // ours are normal numbers
  return bits >> 15 != 0 ? -size : size;
}

// A half of [2^least, 8 * 2^least).
void PutHalf(int least, bool negative, std::mt19937_64& random, uint8_t* to) {
  const auto exponent = static_cast<uint32_t>(least + 15) + random() % 3;
  const auto bits = static_cast<uint32_t>(negative) << 15 | exponent << 10 | static_cast<uint32_t>(random() % 1024);
  to[0] = static_cast<uint8_t>(bits);
  to[1] = static_cast<uint8_t>(bits >> 8);
}

void ReadQ4_1(const uint8_t* block, double* to) {
  for (int i = 0; i < 32; ++i) {
    const int code = i < 16 ? block[4 + i] & 15 : block[4 + i - 16] >> 4;
    to[i] = HalfAt(block) * code + HalfAt(block + 2);
  }
}

void ReadQ8_0(const uint8_t* block, double* to) {
  for (int i = 0; i < 32; ++i) to[i] = HalfAt(block) * static_cast<int8_t>(block[2 + i]);
}

// Eight sub-blocks of 32 with a six-bit scale and minimum each.
void ReadQ4_K(const uint8_t* block, double* to) {
  const uint8_t* const packed = block + 4;
  for (int sub = 0; sub < 8; ++sub) {
    int scale = packed[sub] & 63, minimum = packed[(sub + 4) % 12] & 63;
    if (sub >= 4) {
      scale = (packed[sub + 4] & 15) | packed[sub - 4] >> 6 << 4;
      minimum = packed[sub + 4] >> 4 | packed[sub] >> 6 << 4;
    }
    for (int i = 0; i < 32; ++i) {
      const int byte = block[16 + sub / 2 * 32 + i];
      const int code = sub % 2 == 0 ? byte & 15 : byte >> 4;
      to[sub * 32 + i] = HalfAt(block) * scale * code - HalfAt(block + 2) * minimum;
    }
  }
}

}  // namespace

const char* NameOf(WeightType type) {
  return type == WeightType::kQ4_1 ? "Q4_1" : type == WeightType::kQ8_0 ? "Q8_0" : "Q4_K";
}

int64_t RowBytes(WeightType type, int64_t cols) { return cols / BlockOf(type).elements * BlockOf(type).bytes; }

std::vector<uint8_t> RandomWeights(WeightType type, int64_t rows, int64_t cols, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * RowBytes(type, cols)));
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(&bytes[at], &word, std::min(sizeof(word), bytes.size() - at));
  }
  const size_t block = static_cast<size_t>(BlockOf(type).bytes);
  for (size_t at = 0; at < bytes.size(); at += block) {
    // Codes reach 15, 127 and, times sub-scales, 945; minima take the middle of them away.
    PutHalf(type == WeightType::kQ4_1 ? -7 : type == WeightType::kQ8_0 ? -10 : -13, false, random, &bytes[at]);
    if (type == WeightType::kQ4_1) PutHalf(-4, true, random, &bytes[at + 2]);
    if (type == WeightType::kQ4_K) PutHalf(-10, false, random, &bytes[at + 2]);
  }
  return bytes;
}

std::vector<double> RowValues(WeightType type, const uint8_t* row, int64_t cols) {
  const Block block = BlockOf(type);
  std::vector<double> values(static_cast<size_t>(cols));
  for (int64_t at = 0; at < cols; at += block.elements, row += block.bytes) {
    double* const to = values.data() + at;
    if (type == WeightType::kQ4_1) ReadQ4_1(row, to);
    if (type == WeightType::kQ8_0) ReadQ8_0(row, to);
    if (type == WeightType::kQ4_K) ReadQ4_K(row, to);
  }
  return values;
}

}  // namespace rondo::gpu_check
