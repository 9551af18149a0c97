// Products of a few rows straight from a file's codes: right by float64, a row's bits its own, and the rate at which
// weights are read beside that of a device copy. Decode steps bring rows of floats; rows in bf16 are taken as well.
#include <algorithm>
#include <cmath>

#include "bench/gpu/dense/dense.h"
#include "bench/gpu/dense/weights.h"
#include "bench/gpu/device_memory.h"
#include "bench/gpu/lines.h"
#include "kernels/cuda/dense/launch.h"

namespace rondo::gpu_check {
namespace {

constexpr char kKernel[] = "few rows";

constexpr cuda::RowType TypeOf(const float*) { return cuda::RowType::kF32; }
constexpr cuda::RowType TypeOf(const uint16_t*) { return cuda::RowType::kBf16; }

void Started(const std::string& wrong) {
  if (!wrong.empty()) Fail(std::string(kKernel) + ": " + wrong);
}

// A weight packed on the device, from `file`.
class Packed {
 public:
  Packed(WeightType type, const DenseSizes::Product& shape, const std::vector<uint8_t>& file)
      : type_(type),
        n_(static_cast<int32_t>(shape.n)),
        k_(static_cast<int32_t>(shape.k)),
        packed_(static_cast<size_t>(cuda::PackedBytes(type, n_, k_))) {
    const DeviceArray<uint8_t> codes(file);
    packed_.Poison();
    const cuda::PackArgs args{
        .weight = codes.get(), .row_bytes = RowBytes(type, k_), .packed = packed_.get(), .rows = n_, .cols = k_};
    Started(cuda::LaunchPackWeight(args, type, nullptr));
    RequireFinished("packing");
  }

  template <class T>
  void Queue(const T* x, int64_t count, float* y) const {
    const cuda::MatMulFewRowsArgs args{.packed = packed_.get(), .x = x, .y = y, .count = count, .rows = n_, .cols = k_};
    Started(cuda::LaunchMatMulFewRows(args, type_, TypeOf(x), nullptr));
  }

  template <class T>
  std::vector<float> Run(const std::vector<T>& x) const {
    const int64_t count = static_cast<int64_t>(x.size()) / k_;
    const DeviceArray<T> in(x);
    DeviceArray<float> y(static_cast<size_t>(count * n_));
    y.Poison();
    Queue(in.get(), count, y.get());
    RequireFinished(kKernel);
    return y.ToHost();
  }

  size_t bytes() const { return packed_.count(); }

 private:
  WeightType type_;
  int32_t n_, k_;
  DeviceArray<uint8_t> packed_;
};

// Outputs spread over a row of y [count, n].
template <class T>
ProductError Errors(WeightType type, const DenseSizes::Product& shape, const std::vector<uint8_t>& file,
                    const std::vector<T>& x, const std::vector<float>& y) {
  ProductError error;
  const auto count = static_cast<int64_t>(x.size()) / shape.k;
  for (int64_t out = 0; out < shape.n; out += std::max<int64_t>(1, shape.n / 70)) {
    const std::vector<double> weight = RowValues(type, file.data() + out * RowBytes(type, shape.k), shape.k);
    for (int64_t row = 0; row < count; ++row) error.Add(weight, x.data() + row * shape.k, y[row * shape.n + out]);
  }
  return error;
}

template <class T>
void CheckRowsOf(const char* rows_in, WeightType type, const DenseSizes::Product& shape,
                 const std::vector<uint8_t>& file, const Packed& packed) {
  constexpr int64_t kRows = 11;  // more than the eight that share a read of the weights
  const std::string what = std::string(NameOf(type)) + ", " + std::to_string(shape.n) + " x " +
                           std::to_string(shape.k) + ", rows in " + rows_in;
  const std::vector<T> x = RandomRows<T>(kRows, shape.k, 2);
  const ProductError error = Errors(type, shape, file, x, packed.Run(x));
  Line("check")
      .Text("kernel", kKernel)
      .Text("case", what + ", against float64")
      .Bool("pass", error.fine())
      .Number("error", error.worst)
      .Say();
  SayRowsAreTheirOwn<T>(kKernel, what, x, kRows, shape.k, shape.n, kRows,
                        [&](const std::vector<T>& rows) { return packed.Run(rows); });
}

}  // namespace

void CheckFewRows(const DenseSizes::Product& shape) {
  for (const WeightType type : kFewRowTypes) {
    const std::vector<uint8_t> file = RandomWeights(type, shape.n, shape.k, 1);
    const Packed packed(type, shape, file);
    CheckRowsOf<float>("float32", type, shape, file, packed);
    CheckRowsOf<uint16_t>("bf16", type, shape, file, packed);
  }
}

void MeasureFewRows(const DenseSizes& sizes) {
  if (!Fits(2 * sizes.copy_bytes + (size_t{2} << 30))) {
    Line("absent").Text("what", "rates of few rows").Text("why", "4 GiB of free device memory are wanted").Say();
    return;
  }
  // The copy also leaves nothing of the weights in the L2 cache.
  const DeviceArray<uint8_t> from(sizes.copy_bytes), to(sizes.copy_bytes);
  Require(cudaMemset(from.get(), 1, sizes.copy_bytes), "filling what is copied");
  const auto copy = [&] {
    Require(cudaMemcpyAsync(to.get(), from.get(), sizes.copy_bytes, cudaMemcpyDeviceToDevice, nullptr), "copy");
  };
  for (const DenseSizes::Product& shape : sizes.timed) {
    for (const WeightType type : kFewRowTypes) {
      const std::vector<uint8_t> file = RandomWeights(type, shape.n, shape.k, 7);
      const Packed packed(type, shape, file);
      for (const int64_t rows : {1, 8}) {
        const std::vector<float> x = RandomRows<float>(rows, shape.k, 8);
        const DeviceArray<float> in(x);
        const DeviceArray<float> y(static_cast<size_t>(rows * shape.n));
        const std::vector<double> ms = MedianMs({[&] { packed.Queue(in.get(), rows, y.get()); }, copy}, 15);
        const double rate = static_cast<double>(packed.bytes()) / ms[0] * 1e-6;
        const double copy_rate = 2.0 * static_cast<double>(sizes.copy_bytes) / ms[1] * 1e-6;
        Line("row")
            .Text("kernel", kKernel)
            .Text("weight", NameOf(type))
            .Count("rows", rows)
            .Count("n", shape.n)
            .Count("k", shape.k)
            .Number("ms", ms[0])
            .Number("tflops", NAN)
            .Number("gb_per_s", rate)
            .Number("percent_of_copy", 100 * rate / copy_rate)
            .Bool("pass", Errors(type, shape, file, x, y.ToHost()).fine())
            .Say();
      }
    }
  }
}

}  // namespace rondo::gpu_check
