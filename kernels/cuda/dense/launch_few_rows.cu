// Launchers of packing and of the products with packed weights.
#include "base/check.h"
#include "kernels/cuda/attention/launch.cuh"
#include "kernels/cuda/dense/ctas.h"
#include "kernels/cuda/dense/launch.h"
#include "kernels/cuda/dense/matmul_few_rows.cuh"
#include "kernels/cuda/dense/pack_weight.cuh"

namespace rondo::cuda {
int64_t PackedBytes(WeightType type, int32_t rows, int32_t cols) { return PackedWeightBytes(type, rows, cols); }

std::string LaunchPackWeight(const PackArgs& args, WeightType type, void* stream) {
  return WithPackedType(type, [&]<WeightType kType>() {
    RONDO_CHECK(args.cols % WeightBlock<kType>::kElements == 0);
    const PackedWeight<kType> shape(args.rows, args.cols);
    constexpr int kWarps = kPackThreads / 32;
    const int64_t ctas = CtasFor((int64_t{shape.tiles} * shape.groups + kWarps - 1) / kWarps, 4);
    return LaunchKernel(PackWeight<kType>, ctas, kPackThreads, 0, stream, args);
  });
}

std::string LaunchMatMulFewRows(const MatMulFewRowsArgs& args, WeightType type, RowType x, void* stream) {
  RONDO_CHECK(x == RowType::kF32 || x == RowType::kBf16);
  return WithPackedType(type, [&]<WeightType kType>() {
    RONDO_CHECK(args.cols % WeightBlock<kType>::kElements == 0);
    const int64_t items = PackedWeight<kType>(args.rows, args.cols).tiles * ((args.count + kFewRows - 1) / kFewRows);
    const auto kernel = x == RowType::kF32 ? MatMulFewRows<kType, float> : MatMulFewRows<kType, gpu::Bf16>;
    const int64_t ctas = CtasFor(items, kFewRowsCtasPerMultiprocessor);
    return LaunchKernel(kernel, ctas, kFewRowsThreads, kFewRowsSharedBytes, stream, args);
  });
}

}  // namespace rondo::cuda
