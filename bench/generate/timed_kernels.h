// Kernels that count the time spent in each kind of operation and hand every call on; used by local_bench.
#pragma once

#include <array>
#include <chrono>
#include <string_view>

#include "rondo/attention_kernels.h"
#include "rondo/dense_kernels.h"

namespace rondo {

enum class KernelKind { kMatMul, kPrepare, kAttend, kMergeFinish, kNorm, kRope, kActivation, kAdd, kCount };
inline constexpr std::string_view kKernelKindNames[] = {
    "matmul", "quantise activations", "attend", "merge, finish", "norm", "rope", "activation", "add"};

// Wall seconds by kind, as the calling thread sees them. Dequantised rows are not timed.
struct KernelTimes {
  std::array<double, static_cast<size_t>(KernelKind::kCount)> seconds{};

  template <typename Call>
  void Time(KernelKind kind, Call call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    seconds[static_cast<size_t>(kind)] +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

class TimedDense : public DenseKernels {
 public:
  TimedDense(const DenseKernels& kernels, KernelTimes& times) : kernels_(kernels), times_(times) {}
  std::string_view name() const override { return kernels_.name(); }
  void PrepareRows(ComputeMode mode, const float* x, int64_t count, int64_t cols, ActivationRows* rows,
                   ThreadPool& pool) const override {
    times_.Time(KernelKind::kPrepare, [&] { kernels_.PrepareRows(mode, x, count, cols, rows, pool); });
  }
  void MatMul(const WeightView& weight, const ActivationRows& rows, float* y, ThreadPool& pool) const override {
    times_.Time(KernelKind::kMatMul, [&] { kernels_.MatMul(weight, rows, y, pool); });
  }
  void DequantiseRow(const WeightView& weight, int64_t row, float* out) const override {
    kernels_.DequantiseRow(weight, row, out);
  }
  void DequantiseRows(const WeightView& weight, const int32_t* ids, int64_t count, float* out,
                      ThreadPool& pool) const override {
    kernels_.DequantiseRows(weight, ids, count, out, pool);
  }
  void RmsNorm(const float* x, const float* gain, float eps, int64_t count, int64_t cols, float* y,
               ThreadPool& pool) const override {
    times_.Time(KernelKind::kNorm, [&] { kernels_.RmsNorm(x, gain, eps, count, cols, y, pool); });
  }
  void Rope(float* x, int64_t count, int32_t heads, int32_t head_dim, RopePairing pairing, const float* cos,
            const float* sin, int32_t rotated, ThreadPool& pool) const override {
    times_.Time(KernelKind::kRope, [&] { kernels_.Rope(x, count, heads, head_dim, pairing, cos, sin, rotated, pool); });
  }
  void GatedActivation(GateKind kind, const float* gate, const float* up, int64_t elements, float* out,
                       ThreadPool& pool) const override {
    times_.Time(KernelKind::kActivation, [&] { kernels_.GatedActivation(kind, gate, up, elements, out, pool); });
  }
  void Add(float* x, const float* y, int64_t elements, ThreadPool& pool) const override {
    times_.Time(KernelKind::kAdd, [&] { kernels_.Add(x, y, elements, pool); });
  }

 private:
  const DenseKernels& kernels_;
  KernelTimes& times_;
};

class TimedAttention : public AttentionKernels {
 public:
  TimedAttention(const AttentionKernels& kernels, KernelTimes& times) : kernels_(kernels), times_(times) {}
  std::string_view name() const override { return kernels_.name(); }
  void Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
              const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const override {
    times_.Time(KernelKind::kAttend, [&] { kernels_.Attend(shape, queries, run, mask, nodes, pool); });
  }
  void Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
             ThreadPool& pool) const override {
    times_.Time(KernelKind::kMergeFinish, [&] { kernels_.Merge(shape, count, left, right, pool); });
  }
  void Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
              ThreadPool& pool) const override {
    times_.Time(KernelKind::kMergeFinish, [&] { kernels_.Finish(shape, count, node, out, lse, pool); });
  }

 private:
  const AttentionKernels& kernels_;
  KernelTimes& times_;
};

}  // namespace rondo
