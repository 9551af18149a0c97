// The numbers of a generated problem: each a function of (seed, tensor, row, column), so that a rank makes its own rows
// alone and any number of ranks makes the same tensors; used by scale_rank.
#pragma once

#include <cstdint>

namespace rondo {

enum class GeneratedTensor : uint64_t { kQueries = 1, kKeys = 2, kValues = 3 };

// splitmix64's finaliser (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
constexpr uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Rows [row, row + count) of `columns` floats, uniform in [-2, 2): scores of head_dim 64 then spread by a factor of ten
// and more in weight, so that a wrong maximum or a lost block shows.
inline void GenerateRows(uint64_t seed, GeneratedTensor tensor, int64_t row, int64_t count, int64_t columns,
                         float* out) {
  for (int64_t r = 0; r < count; ++r) {
    const uint64_t key = Mix(Mix(seed * 4 + static_cast<uint64_t>(tensor)) ^ static_cast<uint64_t>(row + r));
    for (int64_t c = 0; c < columns; ++c) {
      const uint64_t bits = Mix(key + static_cast<uint64_t>(c)) >> 40;  // 24 of them: exact in a float
      out[r * columns + c] = static_cast<float>(static_cast<int64_t>(bits) - (int64_t{1} << 23)) * (2.0f / 8388608.0f);
    }
  }
}

}  // namespace rondo
