#include "kernels/ref/dense_ref.h"

#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/fp_env.h"
#include "base/thread_pool.h"
#include "kernels/cpu/dense/block_codes.h"
#include "kernels/cpu/dense/factories.h"
#include "kernels/ref/factories.h"

namespace rondo {
namespace {

double Sigmoid(double z) { return z >= 0 ? 1 / (1 + std::exp(-z)) : std::exp(z) / (1 + std::exp(z)); }

double Activation(GateKind kind, double x) {
  if (kind == GateKind::kSilu) return x * Sigmoid(x);
  return x * Sigmoid(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x));
}

}  // namespace

void DenseRef::PrepareRows(ComputeMode mode, const float* x, int64_t count, int64_t cols, ActivationRows* rows,
                           ThreadPool& pool) const {
  PortableDense()->PrepareRows(mode, x, count, cols, rows, pool);
}

void DenseRef::MatMul(const WeightView& weight, const ActivationRows& rows, float* y, ThreadPool& pool) const {
  RONDO_CHECK(weight.cols == rows.cols);
  const int64_t cols = weight.cols;
  const WeightTypeInfo* info = FindWeightType(weight.type);
  const bool q8 = info->quantised && rows.has_codes();
  pool.Run(weight.rows, [&](int64_t row, int) {
    std::vector<float> w(cols);
    DequantiseRow(weight, row, w.data());
    for (int64_t token = 0; token < rows.count; ++token) {
      double sum = 0;
      for (int64_t k = 0; k < cols; ++k) {
        const int64_t i = token * cols + k;
        const double x = q8 ? double{rows.scale[i / 32]} * rows.codes[i] : double{rows.x[i]};
        sum += w[k] * x;
      }
      y[token * weight.rows + row] = static_cast<float>(sum);
    }
  });
}

void DenseRef::DequantiseRow(const WeightView& weight, int64_t row, float* out) const {
  PortableDense()->DequantiseRow(weight, row, out);
}

void DenseRef::DequantiseRows(const WeightView& weight, const int32_t* ids, int64_t count, float* out,
                              ThreadPool& pool) const {
  pool.Run(count, [&](int64_t i, int) { DequantiseRow(weight, ids[i], out + i * weight.cols); });
}

void DenseRef::RmsNorm(const float* x, const float* gain, float eps, int64_t count, int64_t cols, float* y,
                       ThreadPool& pool) const {
  pool.Run(count, [&](int64_t row, int) {
    double sum = 0;
    for (int64_t i = 0; i < cols; ++i) sum += double{x[row * cols + i]} * x[row * cols + i];
    const double factor = 1 / std::sqrt(sum / static_cast<double>(cols) + eps);
    for (int64_t i = 0; i < cols; ++i) y[row * cols + i] = static_cast<float>(x[row * cols + i] * factor * gain[i]);
  });
}

void DenseRef::Rope(float* x, int64_t count, int32_t heads, int32_t head_dim, RopePairing pairing, const float* cos,
                    const float* sin, int32_t rotated, ThreadPool& pool) const {
  const int32_t pairs = rotated / 2;
  pool.Run(count, [&](int64_t row, int) {
    for (int32_t head = 0; head < heads; ++head) {
      float* p = x + (row * heads + head) * head_dim;
      for (int32_t i = 0; i < pairs; ++i) {
        float& a = pairing == RopePairing::kHalves ? p[i] : p[2 * i];
        float& b = pairing == RopePairing::kHalves ? p[i + pairs] : p[2 * i + 1];
        const double c = cos[row * pairs + i], s = sin[row * pairs + i], x0 = a, x1 = b;
        a = static_cast<float>(x0 * c - x1 * s);
        b = static_cast<float>(x1 * c + x0 * s);
      }
    }
  });
}

void DenseRef::GatedActivation(GateKind kind, const float* gate, const float* up, int64_t elements, float* out,
                               ThreadPool& pool) const {
  pool.Run((elements + 4095) / 4096, [&](int64_t task, int) {
    for (int64_t i = task * 4096; i < elements && i < (task + 1) * 4096; ++i) {
      out[i] = static_cast<float>(Activation(kind, gate[i]) * up[i]);
    }
  });
}

void DenseRef::Add(float* x, const float* y, int64_t elements, ThreadPool&) const {
  for (int64_t i = 0; i < elements; ++i) x[i] += y[i];
}

const DenseKernels* RefDense() {
  static const DenseRef kernels;
  return &kernels;
}

}  // namespace rondo
