// The parts of gpu_check's section "dense": what the dense kernels compute and how fast, see kernels/cuda/dense.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/dense/lt_matmul.h"

namespace rondo::gpu_check {

// How large the section's problems are: those of models on a card (sizes.cc), small ones where plain loops stand for
// it.
struct DenseSizes {
  struct Product {
    int64_t n, k;  // of a weight [n, k]; k a multiple of 256
  };
  std::vector<Product> many_rows;  // for cuBLASLt
  std::vector<Product> few_rows;   // for products straight from codes
  std::vector<Product> timed;
  int64_t timed_rows = 0;  // of many
  int32_t cols = 0;        // of rows that are normalised
  int32_t vocabulary = 0;
  size_t copy_bytes = 0;  // of the copy that rates are held against
};
DenseSizes DenseSizesHere();

// cuBLASLt on this card; null, with an "absent" line, where it was not there to build with.
std::unique_ptr<cuda::LtMatMul> OpenLtMatMul();

void CheckManyRows(cuda::LtMatMul& matmul, const DenseSizes::Product& shape);  // against float64, and row invariance
void CheckFewRows(const DenseSizes::Product& shape);
void CheckWholeRows(const DenseSizes& sizes);  // norm, RoPE, activation, dequantisation, argmax and top-k
void MeasureManyRows(cuda::LtMatMul& matmul, const DenseSizes& sizes);
void MeasureFewRows(const DenseSizes& sizes);  // GB/s beside the copy rate

// y [count, n] of activation rows x [count, k]. T: float, or uint16_t that holds bf16, here and below.
template <class T>
using RowProduct = std::function<std::vector<float>(const std::vector<T>& x)>;
// Says whether each row has the same bits at every place in [0, places) of a batch of `rows` rows, and alone.
template <class T>
void SayRowsAreTheirOwn(const std::string& kernel, const std::string& what, const std::vector<T>& x, int64_t rows,
                        int64_t k, int64_t n, int64_t places, const RowProduct<T>& product);

// The largest error of products so far, in units of what is allowed: tensor cores cut off rather than round, so errors
// add up to 2e-5 of the sum of sizes at a few thousand columns; 1e-6 for sums that cancel.
struct ProductError {
  double worst = 0;
  // weight [k] in float64, x [k].
  template <class T>
  void Add(const std::vector<double>& weight, const T* x, float y);
  bool fine() const { return worst <= 1; }
};

// Of deviation 1; floats that are no bf16.
template <class T>
std::vector<T> RandomRows(int64_t rows, int64_t cols, uint64_t seed);

}  // namespace rondo::gpu_check
