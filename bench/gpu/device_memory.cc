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
  // A round is queued as a whole, behind something that keeps the GPU busy meanwhile: a launch takes the host longer
  // than the shortest of these works take the GPU, and none may wait for the host.
  constexpr size_t kHeadStartBytes = size_t{256} << 20;
  const DeviceArray<uint8_t> head_start(kHeadStartBytes);
  std::vector<cudaEvent_t> marks(works.size() + 1);
  for (cudaEvent_t& mark : marks) Require(cudaEventCreate(&mark), "cudaEventCreate");
  std::vector<std::vector<double>> times(works.size());
  for (int round = -1; round < rounds; ++round) {
    for (int i = 0; i < 4; ++i) {
      Require(cudaMemsetAsync(head_start.get(), i, kHeadStartBytes, nullptr), "cudaMemsetAsync");
    }
    Require(cudaEventRecord(marks[0], nullptr), "cudaEventRecord");
    for (size_t i = 0; i < works.size(); ++i) {
      works[i]();
      Require(cudaEventRecord(marks[i + 1], nullptr), "cudaEventRecord");
    }
    Require(cudaEventSynchronize(marks.back()), "timed launches");
    Require(cudaGetLastError(), "timed launches");
    for (size_t i = 0; round >= 0 && i < works.size(); ++i) {
      float ms = 0;
      Require(cudaEventElapsedTime(&ms, marks[i], marks[i + 1]), "cudaEventElapsedTime");
      times[i].push_back(ms);
    }
  }
  for (cudaEvent_t mark : marks) Require(cudaEventDestroy(mark), "cudaEventDestroy");
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
