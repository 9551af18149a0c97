#include "bench/dense/peaks.h"

#include <immintrin.h>
#include <time.h>

namespace rondo {
namespace {

constexpr long kIterations = 200000;

#define REPEAT12(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define YMM_CLOBBERS                                                                                                  \
  "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", \
      "ymm14", "ymm15"
#define ZERO(r) "vpxor %%xmm" #r ",%%xmm" #r ",%%xmm" #r "\n\t"
#define FMA256(i) "vfmadd231ps %%ymm14,%%ymm15,%%ymm" #i "\n\t"
#define FMA512(i) "vfmadd231ps %%zmm14,%%zmm15,%%zmm" #i "\n\t"
#define PAIR256(i) "vpmaddubsw %%ymm14,%%ymm15,%%ymm12\n\tvpaddw %%ymm12,%%ymm" #i ",%%ymm" #i "\n\t"
#define DOT256(i)                          \
  "vpmaddubsw %%ymm14,%%ymm15,%%ymm12\n\t" \
  "vpmaddwd %%ymm12,%%ymm13,%%ymm12\n\t"   \
  "vpaddd %%ymm12,%%ymm" #i ",%%ymm" #i "\n\t"
#define SIGNED256(i)                       \
  "vpsignb %%ymm14,%%ymm15,%%ymm12\n\t"    \
  "vpmaddubsw %%ymm12,%%ymm15,%%ymm12\n\t" \
  "vpmaddwd %%ymm12,%%ymm13,%%ymm12\n\t"   \
  "vpaddd %%ymm12,%%ymm" #i ",%%ymm" #i "\n\t"
#define DOT512(i) "vpdpbusd %%zmm14,%%zmm15,%%zmm" #i "\n\t"

// 1e9 operations a second of twelve independent `op`s of `each` operations.
#define PEAK(op, each)                                                                                     \
  [] {                                                                                                     \
    asm volatile(REPEAT12(ZERO) ZERO(12) ZERO(13) ZERO(14) ZERO(15)::: YMM_CLOBBERS);                      \
    long n = kIterations;                                                                                  \
    const double begin = ThreadSeconds();                                                                  \
    asm volatile("1:\n\t" REPEAT12(op) REPEAT12(op) "dec %0\n\tjnz 1b\n\t" : "+r"(n)::YMM_CLOBBERS, "cc"); \
    return kIterations * 24.0 * (each) / (ThreadSeconds() - begin) / 1e9;                                  \
  }()

}  // namespace

double ThreadSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double FmaPeak() { return __builtin_cpu_supports("avx512f") ? PEAK(FMA512, 32) : PEAK(FMA256, 16); }

double DotPeak() { return __builtin_cpu_supports("avx512vnni") ? PEAK(DOT512, 128) : PEAK(DOT256, 64); }

double SignedDotPeak() { return __builtin_cpu_supports("avx512vnni") ? DotPeak() : PEAK(SIGNED256, 64); }

double PairPeak() { return __builtin_cpu_supports("avx512vnni") ? DotPeak() : PEAK(PAIR256, 64); }

double ReadRate(const std::byte* data, size_t bytes) {
  const double begin = ThreadSeconds();
  const std::byte* p = data;
  const std::byte* end = data + bytes / 256 * 256;
  asm volatile(
      "1:\n\t"
      "vpor (%0),%%ymm0,%%ymm0\n\tvpor 32(%0),%%ymm1,%%ymm1\n\tvpor 64(%0),%%ymm2,%%ymm2\n\t"
      "vpor 96(%0),%%ymm3,%%ymm3\n\tvpor 128(%0),%%ymm4,%%ymm4\n\tvpor 160(%0),%%ymm5,%%ymm5\n\t"
      "vpor 192(%0),%%ymm6,%%ymm6\n\tvpor 224(%0),%%ymm7,%%ymm7\n\t"
      "add $256,%0\n\tcmp %1,%0\n\tjb 1b"
      : "+r"(p)
      : "r"(end)
      : YMM_CLOBBERS, "cc", "memory");
  return static_cast<double>(bytes) / (ThreadSeconds() - begin) / 1e9;
}

}  // namespace rondo
