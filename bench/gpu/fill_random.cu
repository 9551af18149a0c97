#include "bench/gpu/device_memory.h"

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

void FillRandom(uint16_t* data, size_t count, uint64_t seed, float deviation) {
  if (count == 0) return;
  FillRandomKernel<<<1024, 256>>>(data, count, seed, deviation);
  RequireFinished("FillRandom");
}

}  // namespace rondo::gpu_check
