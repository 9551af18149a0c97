#include "bench/attention/limits.h"

#include <immintrin.h>
#include <time.h>

namespace rondo {
namespace {

constexpr int kSteps = 200000;

// Twelve accumulators: more than latency times ports needs, few enough for sixteen registers.
__attribute__((target("avx2,fma"))) void FmaAvx2() {
  __m256 acc[12];
  for (auto& a : acc) a = _mm256_setzero_ps();
  __m256 x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(0.25f);
  for (int i = 0; i < kSteps; ++i) {
    asm volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) acc[j] = _mm256_fmadd_ps(x, y, acc[j]);
  }
#pragma GCC unroll 12
  for (int j = 0; j < 12; ++j) asm volatile("" ::"x"(acc[j]));
}

__attribute__((target("avx512f"))) void FmaAvx512() {
  __m512 acc[12];
  for (auto& a : acc) a = _mm512_setzero_ps();
  __m512 x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(0.25f);
  for (int i = 0; i < kSteps; ++i) {
    asm volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) acc[j] = _mm512_fmadd_ps(x, y, acc[j]);
  }
#pragma GCC unroll 12
  for (int j = 0; j < 12; ++j) asm volatile("" ::"v"(acc[j]));
}

double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double Time(void (*work)()) {
  const double start = Now();
  for (int i = 0; i < 10; ++i) work();
  return Now() - start;
}

}  // namespace

double FmaGflops() {
  const bool wide = __builtin_cpu_supports("avx512f");
  return 10.0 * kSteps * 12 * 2 * (wide ? 16 : 8) / Time(wide ? FmaAvx512 : FmaAvx2) * 1e-9;
}

__attribute__((target("avx2"))) void ReadAll(const std::byte* data, size_t bytes) {
  __m256i acc[8];
  for (auto& a : acc) a = _mm256_setzero_si256();
  for (size_t i = 0; i < bytes; i += 256) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      acc[j] = _mm256_xor_si256(acc[j], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + i) + j));
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) asm volatile("" ::"x"(acc[j]));
}

}  // namespace rondo
