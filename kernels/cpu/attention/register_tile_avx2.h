// The register tile of AVX2 in assembly: 4 rows x 24 lanes are 12 accumulators, which with three loads and a broadcast
// fill the 16 registers exactly; g++ 12 spills when given the same in intrinsics (60 % of peak instead of 90). Used by
// ops_avx2.cc alone.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/avx2.h"

namespace rondo::attention {
namespace {

// Accumulator of row r, vector c is ymm(3r + c); ymm12..14 hold the 24 lanes of this step, ymm15 the broadcast.
#define RONDO_LANES(step)     \
  "vmovaps " #step            \
  "*96(%[x]), %%ymm12\n\t"    \
  "vmovaps " #step            \
  "*96+32(%[x]), %%ymm13\n\t" \
  "vmovaps " #step "*96+64(%[x]), %%ymm14\n\t"
#define RONDO_ROW(element, a, b, c)        \
  "vbroadcastss " element                  \
  ", %%ymm15\n\t"                          \
  "vfmadd231ps %%ymm12, %%ymm15, %%ymm" #a \
  "\n\t"                                   \
  "vfmadd231ps %%ymm13, %%ymm15, %%ymm" #b \
  "\n\t"                                   \
  "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #c "\n\t"
#define RONDO_ACCUMULATORS(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define RONDO_CLEAR(i) "vxorps %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n\t"
#define RONDO_STORE(i) "vmovaps %%ymm" #i ", " #i "*32(%[out])\n\t"
#define RONDO_STORE_SUM(i) "vaddps %%ymm15, %%ymm" #i ", %%ymm" #i "\n\t" RONDO_STORE(i)
#define RONDO_CLOBBERS                                                                                                \
  "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", \
      "ymm14", "ymm15", "memory", "cc"
// Four keys `row` bytes apart, element `step` of each.
#define RONDO_SCORE_STEP(step)                  \
  RONDO_LANES(step)                             \
  RONDO_ROW(#step "*4(%[k])", 0, 1, 2)          \
  RONDO_ROW(#step "*4(%[k],%[row])", 3, 4, 5)   \
  RONDO_ROW(#step "*4(%[k],%[row],2)", 6, 7, 8) \
  RONDO_ROW(#step "*4(%[k],%[row3])", 9, 10, 11)
// Four values of one key lie side by side.
#define RONDO_VALUE_STEP(step)            \
  RONDO_LANES(step)                       \
  RONDO_ROW(#step "*16(%[v])", 0, 1, 2)   \
  RONDO_ROW(#step "*16+4(%[v])", 3, 4, 5) \
  RONDO_ROW(#step "*16+8(%[v])", 6, 7, 8) \
  RONDO_ROW(#step "*16+12(%[v])", 9, 10, 11)
// max = score > max ? score : max, so a NaN score is passed over.
#define RONDO_MAX(c, r0, r1, r2, r3) \
  "vmovaps " #c                      \
  "*32(%[max]), %%ymm12\n\t"         \
  "vmaxps %%ymm12, %%ymm" #r0        \
  ", %%ymm12\n\t"                    \
  "vmaxps %%ymm12, %%ymm" #r1        \
  ", %%ymm12\n\t"                    \
  "vmaxps %%ymm12, %%ymm" #r2        \
  ", %%ymm12\n\t"                    \
  "vmaxps %%ymm12, %%ymm" #r3        \
  ", %%ymm12\n\t"                    \
  "vmovaps %%ymm12, " #c "*32(%[max])\n\t"

struct RegisterTileAvx2 {
  static constexpr int kRows = 4;
  static constexpr int kLanes = 24;
  // The whole block: its weights, 24 KiB, and a stream of values just fit in an L1 of 32 KiB, and o is written once.
  static constexpr int kPiece = 256;

  // As RegisterTile::Scores. All arrays of lanes are 32-byte aligned.
  RONDO_SIMD void Scores(const float* q, const float* keys, int head_dim, float* scores, float* max) {
    const int64_t row = int64_t{4} * head_dim, row3 = 3 * row;
    const float* next = keys + 4 * head_dim;  // the next four rows: 64 bytes of them for every 4 elements of these
    int64_t fours = head_dim / 4, ones = head_dim % 4;
    asm volatile(
        RONDO_ACCUMULATORS(RONDO_CLEAR)
        "test %[fours], %[fours]\n\t"
        "jz 2f\n"
        ".p2align 4\n"
        "1:\n\t"
        "prefetcht0 (%[next])\n\t"
        "add $64, %[next]\n\t"
        RONDO_SCORE_STEP(0) RONDO_SCORE_STEP(1) RONDO_SCORE_STEP(2) RONDO_SCORE_STEP(3)
        "add $384, %[x]\n\t"
        "add $16, %[k]\n\t"
        "dec %[fours]\n\t"
        "jnz 1b\n"
        "2:\n\t"
        "test %[ones], %[ones]\n\t"
        "jz 4f\n"
        "3:\n\t"
        RONDO_SCORE_STEP(0)
        "add $96, %[x]\n\t"
        "add $4, %[k]\n\t"
        "dec %[ones]\n\t"
        "jnz 3b\n"
        "4:\n\t"
        RONDO_ACCUMULATORS(RONDO_STORE)
        RONDO_MAX(0, 0, 3, 6, 9) RONDO_MAX(1, 1, 4, 7, 10) RONDO_MAX(2, 2, 5, 8, 11)
        : [x] "+r"(q), [k] "+r"(keys), [next] "+r"(next), [fours] "+r"(fours), [ones] "+r"(ones)
        : [row] "r"(row), [row3] "r"(row3), [out] "r"(scores), [max] "r"(max)
        : RONDO_CLOBBERS);
  }

  // As RegisterTile::Accumulate; keys is a positive multiple of 4.
  template <bool kFirst, bool kLast>
  RONDO_SIMD void Accumulate(const float* p, const float* values, int keys, float* o) {
    static_assert(kFirst && kLast);  // a piece is a block
    int64_t fours = keys / 4;
    asm volatile(
        RONDO_ACCUMULATORS(RONDO_CLEAR)
        ".p2align 4\n"
        "1:\n\t"
        "prefetcht0 1024(%[v])\n\t"
        RONDO_VALUE_STEP(0) RONDO_VALUE_STEP(1) RONDO_VALUE_STEP(2) RONDO_VALUE_STEP(3)
        "add $384, %[x]\n\t"
        "add $64, %[v]\n\t"
        "dec %[fours]\n\t"
        "jnz 1b\n\t"
        "vxorps %%xmm15, %%xmm15, %%xmm15\n\t"
        RONDO_ACCUMULATORS(RONDO_STORE_SUM)
        : [x] "+r"(p), [v] "+r"(values), [fours] "+r"(fours)
        : [out] "r"(o)
        : RONDO_CLOBBERS);
  }
};

}  // namespace
}  // namespace rondo::attention
