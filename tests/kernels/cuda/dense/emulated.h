// What the tests of the dense CUDA kernels share: launches on the emulator that check every address, and rows in the
// kernels' element types.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "kernels/cuda/dense/quads.cuh"
#include "tests/testing/simt/launch.h"

namespace rondo::cuda {

struct HowToRun {
  simt::Options options = {};
  int ctas = 3;
};

// One launch: name what it may read and write, then run it. Vectors are on 16 bytes, as the kernels want them.
class EmulatedLaunch {
 public:
  explicit EmulatedLaunch(const HowToRun& how) : how_(how) {}

  template <class T>
  const T* In(const std::vector<T>& values, const char* name) {
    how_.options.memory.push_back({values.data(), values.size() * sizeof(T), false, name});
    return values.data();
  }
  template <class T>
  T* Out(std::vector<T>& values, const char* name) {
    how_.options.memory.push_back({values.data(), values.size() * sizeof(T), true, name});
    return values.data();
  }
  void Run(int threads, size_t shared_bytes, const std::function<void()>& kernel) {
    const simt::Report report = simt::Launch(how_.ctas, threads, shared_bytes, how_.options, kernel);
    ASSERT_EQ(report.fault, "");
  }

 private:
  HowToRun how_;
};

// All bytes 0xff: NaN in every float type.
template <class T>
std::vector<T> Poisoned(size_t size) {
  std::vector<T> values(size);
  std::memset(values.data(), 0xff, size * sizeof(T));
  return values;
}

template <class T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Rows [begin, end) of some columns each.
template <class T>
std::vector<T> RowsOf(const std::vector<T>& rows, int64_t cols, int64_t begin, int64_t end) {
  return {rows.begin() + begin * cols, rows.begin() + end * cols};
}

// Element: float, gpu::Bf16 or gpu::Fp16. One rounding of `Memory`'s last bit at most: half of its relative spacing.
template <class Element>
struct Kept {
  using Memory = typename Quads<Element>::Memory;
  static constexpr bool kIsFloat = std::is_same_v<Element, float>;
  static constexpr double kRounding = kIsFloat ? 0x1p-24 : std::is_same_v<Element, gpu::Bf16> ? 0x1p-8 : 0x1p-11;

  static Memory From(float x) {
    if constexpr (kIsFloat) {
      return x;
    } else {
      return Element::kHalf == simt::Half::kBf16 ? simt::FloatToBf16(x) : simt::FloatToFp16(x);
    }
  }
  static float To(Memory x) {
    if constexpr (kIsFloat) {
      return x;
    } else {
      return Element::kHalf == simt::Half::kBf16 ? simt::Bf16ToFloat(x) : simt::Fp16ToFloat(x);
    }
  }
  static std::vector<Memory> From(const std::vector<float>& x) {
    std::vector<Memory> kept;
    for (const float f : x) kept.push_back(From(f));
    return kept;
  }
};

inline std::vector<float> Uniform(int64_t count, float magnitude, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = (static_cast<float>(random() >> 40) * 0x1p-23f - 1.0f) * magnitude;
  return values;
}

}  // namespace rondo::cuda
