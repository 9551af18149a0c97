// Device memory, streams and times for gpu_check; every failure of the CUDA runtime ends the section (lines.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rondo::gpu_check {

// Ends the section with `what` and CUDA's words, unless `status` is success.
void Require(cudaError_t status, const std::string& what);

// After a launch: was it accepted, and did it run?
void RequireFinished(const std::string& what);

// Whether so many bytes are free, with room to spare for the driver.
bool Fits(size_t bytes);

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    Require(cudaMalloc(reinterpret_cast<void**>(&data_), bytes()),
            "cudaMalloc of " + std::to_string(bytes()) + " bytes");
  }
  explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) {
    Require(cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
  }
  ~DeviceArray() { (void)cudaFree(data_); }  // a context that is lost was reported where it was lost
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return data_; }
  size_t count() const { return count_; }
  size_t bytes() const { return count_ * sizeof(T) + 16; }  // legal also where nothing is held

  // NaN in float32, bf16 and fp16 alike: what a kernel forgets to write is seen.
  void Poison() { Require(cudaMemset(data_, 0xff, bytes()), "poison"); }

  std::vector<T> ToHost() const { return ToHost(0, count_); }
  std::vector<T> ToHost(size_t begin, size_t count) const {
    std::vector<T> host(count);
    Require(cudaMemcpy(host.data(), data_ + begin, count * sizeof(T), cudaMemcpyDeviceToHost), "copy from the device");
    return host;
  }
  // `count` elements of every `stride`, `rows` times, from `begin` on.
  std::vector<T> Gather(size_t begin, size_t count, size_t stride, size_t rows) const {
    std::vector<T> host(count * rows);
    if (!host.empty()) {
      Require(cudaMemcpy2D(host.data(), count * sizeof(T), data_ + begin, stride * sizeof(T), count * sizeof(T), rows,
                           cudaMemcpyDeviceToHost),
              "gathering from the device");
    }
    return host;
  }

 private:
  T* data_ = nullptr;
  size_t count_ = 0;
};

// Pseudo-random bf16 numbers, nearly normal with this standard deviation; the same for the same seed.
void FillRandom(uint16_t* data, size_t count, uint64_t seed, float deviation);

// Milliseconds that the device spends on each of `works`, medians of `rounds` rounds that take them in turn, so that
// clocks and neighbours that change meet all of them alike. One round before is not counted.
std::vector<double> MedianMs(const std::vector<std::function<void()>>& works, int rounds);

// Rounds that keep a measurement near `budget_ms` when one round takes `round_ms`: an odd number from 5 to 31.
int RoundsFor(double round_ms, double budget_ms);

double Median(std::vector<double> values);

}  // namespace rondo::gpu_check
