#include "bench/gpu/dense/dense.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "bench/gpu/device_memory.h"
#include "bench/gpu/lines.h"
#include "bench/gpu/sections.h"

namespace rondo::gpu_check {
namespace {

// Rows of x [rows, k], the first one being row `first`.
template <class T>
std::vector<T> Rotated(const std::vector<T>& x, int64_t first, int64_t k) {
  std::vector<T> rotated(x.begin() + first * k, x.end());
  rotated.insert(rotated.end(), x.begin(), x.begin() + first * k);
  return rotated;
}

float Value(float x) { return x; }
float Value(uint16_t x) { return Bf16ToFloat(x); }

// Bits, and NaN is never right: it is what was not written.
int64_t Differences(const float* a, const float* b, int64_t count) {
  int64_t different = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(float)) != 0 || std::isnan(a[i])) ++different;
  }
  return different;
}

}  // namespace

template <class T>
void ProductError::Add(const std::vector<double>& weight, const T* x, float y) {
  double sum = 0, size = 0;
  for (size_t i = 0; i < weight.size(); ++i) {
    const double product = weight[i] * Value(x[i]);
    sum += product;
    size += std::fabs(product);
  }
  const double error = std::fabs(sum - y) / (2e-5 * size + 1e-6);
  worst = std::isfinite(y) ? std::max(worst, error) : INFINITY;
}

template <>
std::vector<uint16_t> RandomRows(int64_t rows, int64_t cols, uint64_t seed) {
  const DeviceArray<uint16_t> x(static_cast<size_t>(rows * cols));
  FillRandom(x.get(), x.count(), seed, 1);
  return x.ToHost();
}

template <>
std::vector<float> RandomRows(int64_t rows, int64_t cols, uint64_t seed) {
  std::vector<float> x;
  for (const uint16_t coarse : RandomRows<uint16_t>(rows, cols, seed)) {
    x.push_back(Bf16ToFloat(coarse) * 1.0002441f);  // 1 + 2^-12: bits that bf16 has not
  }
  return x;
}

template <class T>
void SayRowsAreTheirOwn(const std::string& kernel, const std::string& what, const std::vector<T>& x, int64_t rows,
                        int64_t k, int64_t n, int64_t places, const RowProduct<T>& product) {
  const std::vector<float> y = product(x);
  int64_t different = 0;
  for (int64_t shift = 1; shift < places; ++shift) {
    const std::vector<float> moved = product(Rotated(x, shift, k));
    different += Differences(moved.data(), y.data() + shift * n, (rows - shift) * n);
    different += Differences(moved.data() + (rows - shift) * n, y.data(), shift * n);
  }
  Line("check")
      .Text("kernel", kernel)
      .Text("case", what + ": a row's bits at " + std::to_string(places) + " places")
      .Bool("pass", different == 0)
      .Count("different", different)
      .Say();
  different = 0;
  for (const int64_t row : {int64_t{0}, rows / 2, rows - 1}) {
    const std::vector<float> alone = product({x.begin() + row * k, x.begin() + (row + 1) * k});
    different += Differences(alone.data(), y.data() + row * n, n);
  }
  Line("check")
      .Text("kernel", kernel)
      .Text("case", what + ": a row alone")
      .Bool("pass", different == 0)
      .Count("different", different)
      .Say();
}

template void ProductError::Add(const std::vector<double>&, const float*, float);
template void ProductError::Add(const std::vector<double>&, const uint16_t*, float);
template void SayRowsAreTheirOwn(const std::string&, const std::string&, const std::vector<float>&, int64_t, int64_t,
                                 int64_t, int64_t, const RowProduct<float>&);
template void SayRowsAreTheirOwn(const std::string&, const std::string&, const std::vector<uint16_t>&, int64_t, int64_t,
                                 int64_t, int64_t, const RowProduct<uint16_t>&);

void MeasureDense() {
  const DenseSizes sizes = DenseSizesHere();
  CheckWholeRows(sizes);
  for (const DenseSizes::Product& shape : sizes.few_rows) CheckFewRows(shape);
  MeasureFewRows(sizes);
  const std::unique_ptr<cuda::LtMatMul> matmul = OpenLtMatMul();
  if (matmul == nullptr) return;
  for (const DenseSizes::Product& shape : sizes.many_rows) CheckManyRows(*matmul, shape);
  MeasureManyRows(*matmul, sizes);
}

}  // namespace rondo::gpu_check
