#include <algorithm>

#include "bench/gpu/device_memory.h"
#include "bench/gpu/lines.h"

namespace rondo::gpu_check {
namespace {

__device__ uint64_t Mix(uint64_t x) {  // splitmix64's finaliser
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The sum of four uniform numbers is near enough to a normal one for attention's scores.
__global__ void FillRandomKernel(uint16_t* data, size_t count, uint64_t seed, float deviation) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint64_t bits = Mix(i + seed * 0x9e3779b97f4a7c15ull);
    float sum = 0;
    for (int part = 0; part < 4; ++part) sum += static_cast<float>((bits >> (16 * part)) & 0xffff);
    // Mean 4 * 32767.5, deviation 65536 * sqrt(4 / 12).
    const float x = (sum - 131070.0f) / 37837.2f * deviation;
    data[i] = static_cast<uint16_t>((__float_as_uint(x) + 0x8000u) >> 16);
  }
}

}  // namespace

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

void FillRandom(uint16_t* data, size_t count, uint64_t seed, float deviation) {
  if (count == 0) return;
  FillRandomKernel<<<1024, 256>>>(data, count, seed, deviation);
  RequireFinished("FillRandom");
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
