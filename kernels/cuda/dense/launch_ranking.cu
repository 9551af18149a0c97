// Launchers of argmax and top-k.
#include "base/check.h"
#include "kernels/cuda/attention/launch.cuh"
#include "kernels/cuda/dense/argmax.cuh"
#include "kernels/cuda/dense/ctas.h"
#include "kernels/cuda/dense/launch.h"
#include "kernels/cuda/dense/top_k.cuh"

namespace rondo::cuda {

std::string LaunchArgmax(const float* logits, int64_t rows, int32_t count, uint64_t* ranks_out, void* stream) {
  const TopKArgs args{.logits = logits, .ranks_out = ranks_out, .rows = rows, .count = count};
  return LaunchKernel(Argmax, CtasFor(rows, 1), kArgmaxThreads, kArgmaxSharedBytes, stream, args);
}

int64_t TopKScratchBytes(int64_t rows, int32_t count, int32_t k) { return TopKScratchRanks(rows, count, k) * 8; }

std::string LaunchTopK(const float* logits, int64_t rows, int32_t count, int32_t k, void* scratch, uint64_t* ranks_out,
                       void* stream) {
  RONDO_CHECK(k > 0 && k <= kMostTopK);
  return ForTopKRounds(logits, rows, count, k, static_cast<uint64_t*>(scratch), ranks_out,
                       [&](const TopKArgs& args, int32_t slices) {
                         constexpr int kCtasPerMultiprocessor = 4;
                         const int64_t ctas = CtasFor(rows * slices, kCtasPerMultiprocessor);
                         return LaunchKernel(TopK, ctas, kTopKThreads, kTopKSharedBytes, stream, args);
                       });
}

}  // namespace rondo::cuda
