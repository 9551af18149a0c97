// Memory of a real card for the tests that want one; they are skipped where there is none.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace rondo::cuda {

inline bool HasCard() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// Values on the card; all bytes 0xff, NaN, where only a size was given.
template <class T>
class OnCard {
 public:
  explicit OnCard(const std::vector<T>& values) : size_(values.size()) {
    Allocate();
    EXPECT_EQ(cudaSuccess, cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  explicit OnCard(size_t size) : size_(size) {
    Allocate();
    EXPECT_EQ(cudaSuccess, cudaMemset(data_, 0xff, size_ * sizeof(T)));
  }
  OnCard(const OnCard&) = delete;
  OnCard& operator=(const OnCard&) = delete;
  ~OnCard() { cudaFree(data_); }

  T* data() const { return data_; }
  // Waits for all that was started.
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
    EXPECT_EQ(cudaSuccess, cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  void Allocate() { EXPECT_EQ(cudaSuccess, cudaMalloc(reinterpret_cast<void**>(&data_), size_ * sizeof(T) + 16)); }

  size_t size_;
  T* data_ = nullptr;
};

// `values` rows of `cols`, in the order of `rows`.
template <class T>
std::vector<T> PickRows(const std::vector<T>& values, int64_t cols, const std::vector<int64_t>& rows) {
  std::vector<T> picked;
  for (const int64_t row : rows) {
    picked.insert(picked.end(), values.begin() + row * cols, values.begin() + (row + 1) * cols);
  }
  return picked;
}

}  // namespace rondo::cuda
