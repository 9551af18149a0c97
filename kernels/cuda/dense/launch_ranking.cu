// Launchers of argmax and top-k.
#include "kernels/cuda/dense/argmax.cuh"
#include "kernels/cuda/dense/launch.h"
#include "kernels/cuda/dense/launch_grid.h"
#include "kernels/cuda/dense/top_k.cuh"

namespace rondo::cuda {

int LaunchArgmax(const float* logits, int64_t rows, int32_t count, uint64_t* ranks_out, void* stream) {
  const TopKArgs args{.logits = logits, .ranks_out = ranks_out, .rows = rows, .count = count};
  return Start(Argmax, args, CtasFor(rows, 1), kArgmaxThreads, kArgmaxSharedBytes, stream);
}

// The first two rounds' ranks; later ones are fewer and take turns with them.
int64_t TopKScratchBytes(int64_t rows, int32_t count, int32_t k) {
  const int32_t first = TopKSlices(count);
  const int32_t second = TopKSlices(first * k);
  return rows * (int64_t{first} + second) * k * 8;
}

int LaunchTopK(const float* logits, int64_t rows, int32_t count, int32_t k, void* scratch, uint64_t* ranks_out,
               void* stream) {
  RONDO_CHECK(k > 0 && k <= kMostTopK);
  uint64_t* buffers[2] = {static_cast<uint64_t*>(scratch),
                          static_cast<uint64_t*>(scratch) + rows * TopKSlices(count) * k};
  TopKArgs args{.logits = logits, .ranks_out = nullptr, .rows = rows, .count = count, .k = k};
  for (int round = 0;; ++round) {
    const int32_t slices = TopKSlices(args.count);
    args.ranks_out = slices == 1 ? ranks_out : buffers[round % 2];
    constexpr int kCtasPerMultiprocessor = 4;
    const int ctas = CtasFor(rows * slices, kCtasPerMultiprocessor);
    if (const int error = Start(TopK, args, ctas, kTopKThreads, kTopKSharedBytes, stream); error != cudaSuccess) {
      return error;
    }
    if (slices == 1) return cudaSuccess;
    args.logits = nullptr;
    args.ranks_in = args.ranks_out;
    args.count = slices * k;
  }
}

}  // namespace rondo::cuda
