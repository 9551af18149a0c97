// cuBLASLt's products: right by float64, a row's bits its own, and how fast.
#include <algorithm>
#include <cmath>

#include "base/bf16.h"
#include "bench/gpu/dense/dense.h"
#include "bench/gpu/device_memory.h"
#include "bench/gpu/lines.h"

namespace rondo::gpu_check {
namespace {

constexpr char kKernel[] = "cuBLASLt, chunks of 128";

void Require(const absl::Status& status) {
  if (!status.ok()) Fail("cuBLASLt: " + std::string(status.message()));
}

std::string Words(int64_t rows, const DenseSizes::Product& shape) {
  return std::to_string(rows) + " rows, " + std::to_string(shape.n) + " x " + std::to_string(shape.k);
}

}  // namespace

void CheckManyRows(cuda::LtMatMul& matmul, const DenseSizes::Product& shape) {
  const int64_t n = shape.n, k = shape.k, rows = 2 * cuda::kLtRows + 22;  // the third chunk is padded
  const DeviceArray<uint16_t> weight(static_cast<size_t>(n * k));
  FillRandom(weight.get(), weight.count(), 3, 0.1f);
  const RowProduct<uint16_t> product = [&](std::vector<uint16_t> x) {
    const auto count = static_cast<int64_t>(x.size()) / k;
    x.resize(static_cast<size_t>(cuda::LtPaddedRows(count) * k), 0x7fff);  // NaN
    const DeviceArray<uint16_t> in(x);
    DeviceArray<float> y(static_cast<size_t>(cuda::LtPaddedRows(count) * n));
    y.Poison();
    Require(matmul.Run({.weight = weight.get(), .x = in.get(), .y = y.get(), .rows = count, .n = n, .k = k}, nullptr));
    RequireFinished("cublasLtMatmul");
    return y.ToHost(0, static_cast<size_t>(count * n));
  };
  const std::vector<uint16_t> x = RandomRows<uint16_t>(rows, k, 4);
  const std::vector<float> y = product(x);
  const std::vector<uint16_t> w = weight.ToHost();
  ProductError error;
  for (const int64_t row : {int64_t{0}, cuda::kLtRows - 1, rows - 1}) {
    for (int64_t out = 0; out < n; out += std::max<int64_t>(1, n / 64)) {
      std::vector<double> values(static_cast<size_t>(k));
      for (int64_t i = 0; i < k; ++i) values[i] = Bf16ToFloat(w[out * k + i]);
      error.Add(values, x.data() + row * k, y[row * n + out]);
    }
  }
  Line("check")
      .Text("kernel", kKernel)
      .Text("case", Words(rows, shape) + ", against float64")
      .Bool("pass", error.fine())
      .Number("error", error.worst)
      .Say();
  SayRowsAreTheirOwn(kKernel, Words(rows, shape), x, rows, k, n, cuda::kLtRows, product);
}

void MeasureManyRows(cuda::LtMatMul& matmul, const DenseSizes& sizes) {
  for (const auto& [n, k] : sizes.timed) {
    const int64_t rows = sizes.timed_rows;
    if (!Fits(static_cast<size_t>(2 * n * k + 2 * rows * k + 4 * rows * n))) {
      Line("absent").Text("what", Words(rows, {n, k})).Text("why", "too little free device memory").Say();
      continue;
    }
    const DeviceArray<uint16_t> weight(static_cast<size_t>(n * k)), x(static_cast<size_t>(rows * k));
    FillRandom(weight.get(), weight.count(), 5, 0.1f);
    FillRandom(x.get(), x.count(), 6, 1);
    const DeviceArray<float> y(static_cast<size_t>(rows * n));
    const cuda::LtMatMulArgs args{.weight = weight.get(), .x = x.get(), .y = y.get(), .rows = rows, .n = n, .k = k};
    const double ms = MedianMs({[&] { Require(matmul.Run(args, nullptr)); }}, 11).front();
    Line("row")
        .Text("kernel", kKernel)
        .Text("weight", "bf16")
        .Count("rows", rows)
        .Count("n", n)
        .Count("k", k)
        .Number("ms", ms)
        .Number("tflops", 2e-9 * static_cast<double>(rows) * static_cast<double>(n * k) / ms)
        .Number("gb_per_s", NAN)
        .Number("percent_of_copy", NAN)
        .Say();
  }
}

}  // namespace rondo::gpu_check
