#include "kernels/cuda/backend/cuda_dense.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace rondo::cuda {
namespace {

// The decoder's row block, and whole chunks of cuBLASLt.
constexpr int64_t kUsualRows = 256;
static_assert(kUsualRows % kLtRows == 0);

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDense>> CudaDense::Create(GpuDense& gpu, const ModelWeights& weights) {
  absl::StatusOr<DeviceWeights> uploaded = DeviceWeights::Upload(gpu, weights);
  if (!uploaded.ok()) return uploaded.status();
  std::unique_ptr<CudaDense> dense(new CudaDense(gpu, *std::move(uploaded)));
  const DeviceWeights& made = dense->weights_;
  const size_t id_bytes = kUsualRows * sizeof(int32_t);
  const size_t rounded_bytes = kUsualRows * made.most_cols() * sizeof(uint16_t);
  // All of a block where outputs are padded, else its last chunk.
  const size_t padded_bytes = kUsualRows * made.most_outputs() * sizeof(float);
  if (!dense->rounded_.TryGrow(rounded_bytes) || !dense->padded_.TryGrow(padded_bytes) ||
      !dense->ids_.TryGrow(id_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("beside the weights, products need ",
                                                     rounded_bytes + padded_bytes + id_bytes,
                                                     " bytes of GPU memory, and ", gpu.free_bytes(), " are free"));
  }
  return dense;
}

CudaDense::CudaDense(GpuDense& gpu, DeviceWeights weights)
    : gpu_(gpu), weights_(std::move(weights)), ids_(gpu.memory()), rounded_(gpu.memory()), padded_(gpu.memory()) {}

void CudaDense::PrepareRows(ComputeMode mode, const float* x, int64_t count, int64_t cols, ActivationRows* rows,
                            ThreadPool&) const {
  RONDO_CHECK(mode == ComputeMode::kBf16);
  rows->mode = mode;
  rows->x = x;
  rows->count = count;
  rows->cols = cols;
  rounded_of_ = nullptr;
}

// Rounded when a product first asks: decode with packed weights never does.
const uint16_t* CudaDense::Rounded(const ActivationRows& rows) const {
  auto* out = reinterpret_cast<uint16_t*>(rounded_.Grow(LtPaddedRows(rows.count) * rows.cols * sizeof(uint16_t)));
  if (rounded_of_ == &rows) return out;
  gpu_.Dequantise({.weight = reinterpret_cast<const uint8_t*>(rows.x),
                   .row_bytes = rows.cols * static_cast<int64_t>(sizeof(float)),
                   .out = out,
                   .rows = rows.count,
                   .cols = rows.cols},
                  WeightType::kF32, RowType::kBf16);
  rounded_of_ = &rows;
  return out;
}

void CudaDense::MatMul(const WeightView& weight, const ActivationRows& rows, float* y, ThreadPool&) const {
  RONDO_CHECK(weight.cols == rows.cols);
  if (rows.count == 0) return;
  const DeviceWeight& device = weights_.Of(weight);
  if (rows.kind == RowKind::kDrawn && device.packed != nullptr) {
    gpu_.MatMulFewRows({.packed = device.packed,
                        .x = rows.x,
                        .y = y,
                        .count = rows.count,
                        .rows = static_cast<int32_t>(weight.rows),
                        .cols = static_cast<int32_t>(weight.cols)},
                       weight.type);
    return;
  }
  RONDO_CHECK(device.rounded != nullptr);
  MultiplyRounded(device.rounded, weight.rows, rows, y);
}

// Whole chunks straight to where they belong. The last one, which writes rows that y does not have, and outputs whose
// number is not the library's, by a buffer.
void CudaDense::MultiplyRounded(const uint16_t* weight, int64_t n, const ActivationRows& rows, float* y) const {
  const uint16_t* const x = Rounded(rows);
  const int64_t padded_n = LtPaddedOutputs(n);
  const int64_t direct = padded_n == n ? rows.count / kLtRows * kLtRows : 0;
  LtMatMulArgs args{.weight = weight, .x = x, .y = y, .rows = direct, .n = padded_n, .k = rows.cols};
  if (direct > 0) gpu_.LtMatMul(args);
  args.rows = rows.count - direct;
  if (args.rows == 0) return;
  auto* const padded = reinterpret_cast<float*>(padded_.Grow(LtPaddedRows(args.rows) * padded_n * sizeof(float)));
  args.x = x + direct * rows.cols;
  args.y = padded;
  gpu_.LtMatMul(args);
  gpu_.MoveRows(
      {.from = padded, .to = y + direct * n, .from_stride = padded_n, .to_stride = n, .rows = args.rows, .cols = n});
}

void CudaDense::Lookup(const WeightView& weight, const int32_t* ids, int64_t count, float* out) const {
  if (count == 0) return;
  const DeviceWeight& device = weights_.Of(weight);
  RONDO_CHECK(device.file != nullptr);
  auto* const on_device = reinterpret_cast<int32_t*>(ids_.Grow(count * sizeof(int32_t)));
  gpu_.memory().Copy(on_device, ids, count * sizeof(int32_t));
  gpu_.Dequantise({.weight = device.file,
                   .row_bytes = static_cast<int64_t>(weight.row_bytes),
                   .ids = on_device,
                   .out = out,
                   .rows = count,
                   .cols = weight.cols},
                  weight.type, RowType::kF32);
}

void CudaDense::DequantiseRow(const WeightView& weight, int64_t row, float* out) const {
  const auto id = static_cast<int32_t>(row);
  Lookup(weight, &id, 1, out);
}

void CudaDense::DequantiseRows(const WeightView& weight, const int32_t* ids, int64_t count, float* out,
                               ThreadPool&) const {
  Lookup(weight, ids, count, out);
}

void CudaDense::RmsNorm(const float* x, const float* gain, float eps, int64_t count, int64_t cols, float* y,
                        ThreadPool& pool) const {
  AddRmsNorm(const_cast<float*>(x), nullptr, gain, eps, count, cols, y, pool);  // without an addend x is only read
}

void CudaDense::AddRmsNorm(float* x, const float* addend, const float* gain, float eps, int64_t count, int64_t cols,
                           float* y, ThreadPool&) const {
  if (count == 0) return;
  gpu_.RmsNorm({.x = x,
                .addend = addend,
                .gain = weights_.Gain(gain),
                .out = y,
                .rows = count,
                .cols = static_cast<int32_t>(cols),
                .eps = eps});
}

void CudaDense::Rope(float* x, int64_t count, int32_t heads, int32_t head_dim, RopePairing pairing, const float* cos,
                     const float* sin, int32_t rotated, ThreadPool&) const {
  if (count == 0) return;
  gpu_.Rope({.x = x,
             .cos = cos,
             .sin = sin,
             .row_stride = int64_t{heads} * head_dim,
             .rows = count,
             .heads = heads,
             .head_dim = head_dim,
             .rotated = rotated},
            pairing);
}

void CudaDense::GatedActivation(GateKind kind, const float* gate, const float* up, int64_t elements, float* out,
                                ThreadPool&) const {
  if (elements == 0) return;
  RONDO_CHECK(elements <= std::numeric_limits<int32_t>::max());
  gpu_.GatedActivation(
      {.gate = gate, .up = up, .in_stride = elements, .out = out, .rows = 1, .cols = static_cast<int32_t>(elements)},
      kind);
}

void CudaDense::Add(float* x, const float* y, int64_t elements, ThreadPool&) const {
  if (elements == 0) return;
  gpu_.MoveRows(
      {.from = y, .to = x, .from_stride = elements, .to_stride = elements, .rows = 1, .cols = elements, .add = true});
}

}  // namespace rondo::cuda
