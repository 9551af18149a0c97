// Launcher of dequantisation and embedding lookup.
#include "base/check.h"
#include "kernels/cuda/attention/launch.cuh"
#include "kernels/cuda/dense/ctas.h"
#include "kernels/cuda/dense/dequantise.cuh"
#include "kernels/cuda/dense/launch.h"

namespace rondo::cuda {
namespace {

template <WeightType kType>
std::string StartDequantise(const DequantiseArgs& args, RowType out, int64_t ctas, void* stream) {
  RONDO_CHECK(out == RowType::kF32 || out == RowType::kBf16);
  const auto kernel = out == RowType::kF32 ? Dequantise<kType, float> : Dequantise<kType, gpu::Bf16>;
  return LaunchKernel(kernel, ctas, kDequantiseThreads, 0, stream, args);
}

}  // namespace

std::string LaunchDequantise(const DequantiseArgs& args, WeightType type, RowType out, void* stream) {
  RONDO_CHECK(args.cols % 4 == 0);
  const int64_t quads = args.rows * (args.cols / 4);
  constexpr int kCtasPerMultiprocessor = 8;
  const int64_t ctas = CtasFor((quads + kDequantiseThreads - 1) / kDequantiseThreads, kCtasPerMultiprocessor);
  switch (type) {
    case WeightType::kF32:
      return StartDequantise<WeightType::kF32>(args, out, ctas, stream);
    case WeightType::kF16:
      return StartDequantise<WeightType::kF16>(args, out, ctas, stream);
    case WeightType::kBF16:
      return StartDequantise<WeightType::kBF16>(args, out, ctas, stream);
    case WeightType::kQ4_0:
      return StartDequantise<WeightType::kQ4_0>(args, out, ctas, stream);
    case WeightType::kQ4_1:
      return StartDequantise<WeightType::kQ4_1>(args, out, ctas, stream);
    case WeightType::kQ5_0:
      return StartDequantise<WeightType::kQ5_0>(args, out, ctas, stream);
    case WeightType::kQ5_1:
      return StartDequantise<WeightType::kQ5_1>(args, out, ctas, stream);
    case WeightType::kQ8_0:
      return StartDequantise<WeightType::kQ8_0>(args, out, ctas, stream);
    case WeightType::kQ4_K:
      return StartDequantise<WeightType::kQ4_K>(args, out, ctas, stream);
    case WeightType::kQ5_K:
      return StartDequantise<WeightType::kQ5_K>(args, out, ctas, stream);
    case WeightType::kQ6_K:
      return StartDequantise<WeightType::kQ6_K>(args, out, ctas, stream);
  }
  return "no such type";
}

}  // namespace rondo::cuda
