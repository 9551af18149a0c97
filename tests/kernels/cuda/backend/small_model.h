// A model of one layer on an emulated GPU, and calls of its dense kernels over rows in host memory; used by the tests
// of the dense seam.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cuda/backend/cuda_dense.h"
#include "tests/kernels/cuda/backend/emulated_dense.h"
#include "tests/kernels/dense/weights.h"
#include "tests/testing/simt/small_floats.h"

namespace rondo::cuda {

inline constexpr int64_t kWidth = 256, kInner = 512;  // whole blocks of every type
inline constexpr int64_t kVocab = 45;                 // not cuBLASLt's eight
// With packed codes, of the two kinds, and without.
inline constexpr WeightType kSomeTypes[] = {WeightType::kQ4_1, WeightType::kQ4_K, WeightType::kQ6_K};

// One layer of one type, too small for anything but these tests.
struct SmallModel {
  explicit SmallModel(WeightType type, uint64_t seed = 1) : random(seed) {
    weights.layers.emplace_back();
    LayerWeights& layer = weights.layers[0];
    layer.wq = Matrix(type, 72, kWidth);
    layer.wk = Matrix(type, 8, kWidth);
    layer.wv = Matrix(type, 24, kWidth);
    layer.wo = Matrix(type, kWidth, kWidth);
    layer.gate = Matrix(type, kInner, kWidth);
    layer.up = Matrix(type, kInner, kWidth);
    layer.down = Matrix(type, kWidth, kInner);
    weights.embedding = Matrix(type, kVocab, kWidth);
    weights.output = Matrix(type, kVocab, kWidth);
    for (std::vector<float>& gain : gains) gain = rondo::testing::RandomFloats(kWidth, random);
    layer.attn_norm = gains[0].data();
    layer.ffn_norm = gains[1].data();
    weights.output_norm = gains[2].data();
  }

  WeightView Matrix(WeightType type, int64_t rows, int64_t cols) {
    matrices.push_back(rondo::testing::MakeWeights(type, rows, cols, rondo::testing::Fill::kRandom, random));
    return matrices.back().view;
  }

  std::mt19937_64 random;
  std::vector<rondo::testing::Weights> matrices;
  std::vector<float> gains[3];
  ModelWeights weights;
};

// The model on a GPU, and calls over rows in host memory.
struct OnGpu {
  explicit OnGpu(const SmallModel& model) : dense(CudaDense::Create(emulated, model.weights).value()) {
    emulated.TakeLaunches();
  }

  // Device memory with these values.
  float* Put(const std::vector<float>& values) {
    buffers.emplace_back(gpu);
    auto* const to = reinterpret_cast<float*>(buffers.back().Grow(std::max<size_t>(1, values.size() * sizeof(float))));
    if (!values.empty()) gpu.Copy(to, values.data(), values.size() * sizeof(float));
    return to;
  }
  std::vector<float> Get(const float* from, int64_t count) {
    std::vector<float> values(count);
    if (count > 0) gpu.Copy(values.data(), from, count * sizeof(float));
    return values;
  }

  // [count, weight.rows] of x [count, weight.cols]; memory beyond it must stay as it is.
  std::vector<float> MatMul(const WeightView& weight, RowKind kind, const std::vector<float>& x) {
    const int64_t count = static_cast<int64_t>(x.size()) / weight.cols;
    const std::vector<float> fence(16, 7.0f);
    std::vector<float> room(count * weight.rows, std::numeric_limits<float>::quiet_NaN());
    room.insert(room.end(), fence.begin(), fence.end());
    float* const y = Put(room);
    ActivationRows rows;
    rows.kind = kind;
    dense->PrepareRows(ComputeMode::kBf16, Put(x), count, weight.cols, &rows, pool);
    dense->MatMul(weight, rows, y, pool);
    EXPECT_EQ(Get(y + count * weight.rows, 16), fence);
    return Get(y, count * weight.rows);
  }

  EmulatedGpu gpu;
  EmulatedDense emulated{gpu};
  std::unique_ptr<CudaDense> dense;
  std::vector<TensorBuffer> buffers;
  ThreadPool pool{1};
};

inline std::vector<float> PickRows(const std::vector<float>& rows, int64_t cols, const std::vector<int64_t>& which) {
  std::vector<float> picked;
  for (const int64_t row : which)
    picked.insert(picked.end(), rows.begin() + row * cols, rows.begin() + (row + 1) * cols);
  return picked;
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline float Bf16(double x) { return simt::Bf16ToFloat(simt::FloatToBf16(static_cast<float>(x))); }

// y against the sums in double of w and x as `seen` makes them.
template <class Seen>
void ExpectProducts(const WeightView& weight, const std::vector<float>& x, const std::vector<float>& y, Seen seen) {
  const std::vector<double> w = rondo::testing::Decode(weight);
  for (size_t i = 0; i * weight.cols < x.size(); ++i) {
    for (int64_t r = 0; r < weight.rows; ++r) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < weight.cols; ++j) {
        const double product = seen(w[r * weight.cols + j]) * seen(x[i * weight.cols + j]);
        sum += product;
        size += std::fabs(product);
      }
      ASSERT_NEAR(y[i * weight.rows + r], sum, 1e-5 * size) << i << ", " << r;
    }
  }
}

}  // namespace rondo::cuda
