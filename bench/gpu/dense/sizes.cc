// The dense section's problems on a card: weights of SmolLM2, of models of eight billion parameters and a tall one.
#include "bench/gpu/dense/dense.h"

namespace rondo::gpu_check {

DenseSizes DenseSizesHere() {
  DenseSizes sizes;
  sizes.many_rows = {{576, 576}, {1536, 576}, {4096, 4096}, {1024, 14336}};
  sizes.few_rows = {{70, 2304}, {1024, 4096}};
  // What a decode step reads, each more than the last for caches to hold.
  sizes.timed = {{4096, 4096}, {14336, 4096}, {128256, 4096}};
  sizes.timed_rows = 4096;
  sizes.cols = 4096;
  sizes.vocabulary = 128256;
  sizes.copy_bytes = size_t{1} << 30;
  return sizes;
}

}  // namespace rondo::gpu_check
