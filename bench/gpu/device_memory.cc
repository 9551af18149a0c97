#include "bench/gpu/device_memory.h"

#include <algorithm>

#include "bench/gpu/lines.h"

namespace rondo::gpu_check {

void Require(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return;
  Fail(what + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}

void RequireFinished(const std::string& what) {
  Require(cudaGetLastError(), what + " (launch)");
  Require(cudaDeviceSynchronize(), what);
}

bool Fits(size_t bytes) {
  size_t free_bytes = 0, total_bytes = 0;
  Require(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  constexpr size_t kSpare = size_t{512} << 20;
  return bytes + kSpare < free_bytes;
}

std::vector<double> MedianMs(const std::vector<std::function<void()>>& works, int rounds) {
  cudaEvent_t begin, end;
  Require(cudaEventCreate(&begin), "cudaEventCreate");
  Require(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<std::vector<double>> times(works.size());
  for (int round = -1; round < rounds; ++round) {
    for (size_t i = 0; i < works.size(); ++i) {
      Require(cudaEventRecord(begin, nullptr), "cudaEventRecord");
      works[i]();
      Require(cudaEventRecord(end, nullptr), "cudaEventRecord");
      Require(cudaEventSynchronize(end), "a timed launch");
      Require(cudaGetLastError(), "a timed launch");
      float ms = 0;
      Require(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
      if (round >= 0) times[i].push_back(ms);
    }
  }
  Require(cudaEventDestroy(begin), "cudaEventDestroy");
  Require(cudaEventDestroy(end), "cudaEventDestroy");
  std::vector<double> medians;
  for (const std::vector<double>& t : times) medians.push_back(Median(t));
  return medians;
}

int RoundsFor(double round_ms, double budget_ms) {
  const double rounds = round_ms > 0 ? budget_ms / round_ms : 31;
  return std::clamp(static_cast<int>(std::min(rounds, 31.0)), 5, 31) | 1;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace rondo::gpu_check
