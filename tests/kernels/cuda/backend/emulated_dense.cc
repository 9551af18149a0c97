#include "tests/kernels/cuda/backend/emulated_dense.h"

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/cuda/dense/dequantise.cuh"
#include "kernels/cuda/dense/gated_activation.cuh"
#include "kernels/cuda/dense/matmul_few_rows.cuh"
#include "kernels/cuda/dense/move_rows.cuh"
#include "kernels/cuda/dense/pack_weight.cuh"
#include "kernels/cuda/dense/rms_norm.cuh"
#include "kernels/cuda/dense/rope.cuh"
#include "tests/testing/simt/launch.h"
#include "tests/testing/simt/small_floats.h"

namespace rondo::cuda {
namespace {

constexpr int kCtas = 2;

template <class F>
void WithWeightType(WeightType type, F f) {
  switch (type) {
#define RONDO_CASE(name)                       \
  case WeightType::name:                       \
    f.template operator()<WeightType::name>(); \
    return;
    RONDO_CASE(kF32)
    RONDO_CASE(kF16)
    RONDO_CASE(kBF16)
    RONDO_CASE(kQ4_0)
    RONDO_CASE(kQ4_1)
    RONDO_CASE(kQ5_0)
    RONDO_CASE(kQ5_1)
    RONDO_CASE(kQ8_0)
    RONDO_CASE(kQ4_K)
    RONDO_CASE(kQ5_K)
    RONDO_CASE(kQ6_K)
#undef RONDO_CASE
  }
  RONDO_CHECK(false);
}

}  // namespace

void EmulatedDense::Launch(const char* name, int threads, size_t shared_bytes, const std::function<void()>& kernel) {
  ++launches_[name];
  const testing::FencedMemory::Opened opened(gpu_.fenced());
  const simt::Report report = simt::Launch(kCtas, threads, shared_bytes, options_, kernel);
  if (report.ok()) return;
  std::fprintf(stderr, "%s: %s\n", name, report.fault.c_str());
  std::abort();
}

void EmulatedDense::RmsNorm(const RmsNormArgs& args) {
  RONDO_CHECK(args.cols % 4 == 0 && gpu_.Owns(args.gain));
  Launch("norm", kNormThreads, kNormSharedBytes, [&] { cuda::RmsNorm<float, float>(args); });
}

void EmulatedDense::Rope(const RopeArgs& args, RopePairing pairing) {
  RONDO_CHECK(args.rotated % 2 == 0 && args.rotated <= args.head_dim);
  Launch("rope", kRopeThreads, 0, [&] {
    pairing == RopePairing::kHalves ? cuda::Rope<float, RopePairing::kHalves>(args)
                                    : cuda::Rope<float, RopePairing::kInterleaved>(args);
  });
}

void EmulatedDense::GatedActivation(const GatedActivationArgs& args, GateKind kind) {
  RONDO_CHECK(args.cols % 4 == 0 && args.in_stride % 4 == 0);
  Launch("gate", kGateThreads, 0, [&] {
    kind == GateKind::kSilu ? cuda::GatedActivation<float, float, GateKind::kSilu>(args)
                            : cuda::GatedActivation<float, float, GateKind::kGeluTanh>(args);
  });
}

void EmulatedDense::MoveRows(const MoveRowsArgs& args) {
  Launch(args.add ? "add" : "move", kMoveThreads, 0, [&] { cuda::MoveRows(args); });
}

void EmulatedDense::Dequantise(const DequantiseArgs& args, WeightType type, RowType out) {
  RONDO_CHECK(args.cols % 4 == 0);
  WithWeightType(type, [&]<WeightType kType>() {
    Launch(args.ids != nullptr ? "lookup" : "round", kDequantiseThreads, 0, [&] {
      out == RowType::kF32 ? cuda::Dequantise<kType, float>(args) : cuda::Dequantise<kType, gpu::Bf16>(args);
    });
  });
}

void EmulatedDense::PackWeight(const PackArgs& args, WeightType type) {
  WithPackedType(type,
                 [&]<WeightType kType>() { Launch("pack", kPackThreads, 0, [&] { cuda::PackWeight<kType>(args); }); });
}

void EmulatedDense::MatMulFewRows(const MatMulFewRowsArgs& args, WeightType type) {
  WithPackedType(type, [&]<WeightType kType>() {
    Launch("few rows", kFewRowsThreads, kFewRowsSharedBytes, [&] { cuda::MatMulFewRows<kType, float>(args); });
  });
}

absl::Status EmulatedDense::PrepareLtMatMul(int64_t n, int64_t k) {
  if (n == refused_) {
    return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm without split-K for n ", n, ", k ", k));
  }
  prepared_.emplace(n, k);
  return absl::OkStatus();
}

void EmulatedDense::LtMatMul(const LtMatMulArgs& args) {
  RONDO_CHECK(args.type == RowType::kBf16 && args.y_type == RowType::kF32 && args.n % 8 == 0 && args.k % 8 == 0);
  RONDO_CHECK((prepared_.contains({args.n, args.k})));
  for (const void* pointer : {args.weight, args.x, static_cast<const void*>(args.y)}) {
    RONDO_CHECK(gpu_.Owns(pointer) && reinterpret_cast<uintptr_t>(pointer) % 16 == 0);
  }
  launches_["lt"] += static_cast<int>(LtPaddedRows(args.rows) / kLtRows);
  const testing::FencedMemory::Opened opened(gpu_.fenced());
  const auto* weight = static_cast<const uint16_t*>(args.weight);
  const auto* x = static_cast<const uint16_t*>(args.x);
  auto* y = static_cast<float*>(args.y);
  for (int64_t i = 0; i < LtPaddedRows(args.rows); ++i) {
    for (int64_t r = 0; r < args.n; ++r) {
      double sum = 0;
      for (int64_t j = 0; j < args.k; ++j) {
        sum += double{simt::Bf16ToFloat(weight[r * args.k + j])} * double{simt::Bf16ToFloat(x[i * args.k + j])};
      }
      y[i * args.n + r] = i < args.rows ? static_cast<float>(sum) : std::numeric_limits<float>::quiet_NaN();
    }
  }
}

}  // namespace rondo::cuda
