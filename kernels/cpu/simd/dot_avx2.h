// Products of unsigned or signed weight codes with int8 activations on AVX2: a tile of 16 weight rows by 4 tokens, in
// inline assembly because g++ 12 orders the intrinsics badly (117 against 180 GFLOP/s). Used by the q8 matmul.
//
// Weight codes lie quad-interleaved: 64 bytes a step hold four consecutive codes of each of 16 rows; a step meets four
// consecutive activation codes of a token, broadcast.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace rondo::simd {
namespace {

// Sums of 8 rows (lower, upper half of the panel) for four tokens.
struct Tile16x4 {
  __m256i low[4], high[4];
};

// clang-format off
// Addresses of the four tokens' codes, `stride` bytes apart.
#define RONDO_TOKEN0 "(%[x])"
#define RONDO_TOKEN1 "(%[x],%[s])"
#define RONDO_TOKEN2 "(%[x],%[s],2)"
#define RONDO_TOKEN3 "(%[x],%[s3])"
// One token of one step: ymm8, ymm9 hold the weights. FIRST overwrites the i16 sums, NEXT adds to them.
#define RONDO_DOT_FIRST(at, token, low, high)                \
  "vpbroadcastd " #at token ",%%ymm10\n\t"                   \
  "vpmaddubsw %%ymm10,%%ymm8,%%ymm" #low "\n\t"              \
  "vpmaddubsw %%ymm10,%%ymm9,%%ymm" #high "\n\t"
#define RONDO_DOT_NEXT(at, token, low, high)                 \
  "vpbroadcastd " #at token ",%%ymm10\n\t"                   \
  "vpmaddubsw %%ymm10,%%ymm8,%%ymm11\n\t"                    \
  "vpmaddubsw %%ymm10,%%ymm9,%%ymm12\n\t"                    \
  "vpaddw %%ymm11,%%ymm" #low ",%%ymm" #low "\n\t"           \
  "vpaddw %%ymm12,%%ymm" #high ",%%ymm" #high "\n\t"
#define RONDO_DOT_STEP(step, op)                             \
  "vmovdqa " #step "*64(%[w]),%%ymm8\n\t"                    \
  "vmovdqa " #step "*64+32(%[w]),%%ymm9\n\t"                 \
  op(step * 4, RONDO_TOKEN0, 0, 4) op(step * 4, RONDO_TOKEN1, 1, 5) \
  op(step * 4, RONDO_TOKEN2, 2, 6) op(step * 4, RONDO_TOKEN3, 3, 7)
// clang-format on
#define RONDO_DOT_BODY2 RONDO_DOT_STEP(0, RONDO_DOT_FIRST) RONDO_DOT_STEP(1, RONDO_DOT_NEXT)
#define RONDO_DOT_BODY4 RONDO_DOT_BODY2 RONDO_DOT_STEP(2, RONDO_DOT_NEXT) RONDO_DOT_STEP(3, RONDO_DOT_NEXT)
#define RONDO_DOT_BODY8                                                               \
  RONDO_DOT_BODY4 RONDO_DOT_STEP(4, RONDO_DOT_NEXT) RONDO_DOT_STEP(5, RONDO_DOT_NEXT) \
      RONDO_DOT_STEP(6, RONDO_DOT_NEXT) RONDO_DOT_STEP(7, RONDO_DOT_NEXT)
#define RONDO_DOT_RUN(body, extra)                                                                                 \
  register __m256i a0 asm("ymm0"), a1 asm("ymm1"), a2 asm("ymm2"), a3 asm("ymm3"), a4 asm("ymm4"), a5 asm("ymm5"), \
      a6 asm("ymm6"), a7 asm("ymm7");                                                                              \
  asm volatile(body                                                                                                \
               : "=x"(a0), "=x"(a1), "=x"(a2), "=x"(a3), "=x"(a4), "=x"(a5), "=x"(a6), "=x"(a7)                    \
               : [w] "r"(w), [x] "r"(x), [s] "r"(stride), [s3] "r"(3 * stride)                                     \
               : "ymm8", "ymm9", "ymm10", "ymm11", "ymm12" extra, "memory");                                       \
  *sums = {{a0, a1, a2, a3}, {a4, a5, a6, a7}}

// i16 sums over kSteps steps; each lane is half of a row's sum, two lanes a row. The caller sees to it that
// kSteps * 2 * largest code * 127 is below 32768: 15 allows 8 steps (30,480), 31 four (31,496), 63 two (32,004).
template <int kSteps>
[[gnu::always_inline]] inline void DotUnsigned(const uint8_t* w, const int8_t* x, int64_t stride, Tile16x4* sums) {
  static_assert(kSteps == 2 || kSteps == 4 || kSteps == 8);
  if constexpr (kSteps == 8) {
    RONDO_DOT_RUN(RONDO_DOT_BODY8, );
  } else if constexpr (kSteps == 4) {
    RONDO_DOT_RUN(RONDO_DOT_BODY4, );
  } else {
    RONDO_DOT_RUN(RONDO_DOT_BODY2, );
  }
}

// Signed weight bytes: |w| times x with w's sign, widened to i32 at every step: at most 2 * 128 * 127 = 32,512 in i16.
#define RONDO_SIGNED_HALF(w, abs, temp, sum)            \
  "vpsignb %%ymm" #w ",%%ymm10,%%ymm" #temp             \
  "\n\t"                                                \
  "vpmaddubsw %%ymm" #temp ",%%ymm" #abs ",%%ymm" #temp \
  "\n\t"                                                \
  "vpmaddwd %%ymm15,%%ymm" #temp ",%%ymm" #temp         \
  "\n\t"                                                \
  "vpaddd %%ymm" #temp ",%%ymm" #sum ",%%ymm" #sum "\n\t"
// clang-format off
#define RONDO_SIGNED_TOKEN(at, token, low, high)             \
  "vpbroadcastd " #at token ",%%ymm10\n\t"                   \
  RONDO_SIGNED_HALF(8, 13, 11, low) RONDO_SIGNED_HALF(9, 14, 12, high)
// clang-format on
#define RONDO_SIGNED_STEP(step)                                                                         \
  "vmovdqa " #step                                                                                      \
  "*64(%[w]),%%ymm8\n\t"                                                                                \
  "vmovdqa " #step                                                                                      \
  "*64+32(%[w]),%%ymm9\n\t"                                                                             \
  "vpabsb %%ymm8,%%ymm13\n\t"                                                                           \
  "vpabsb %%ymm9,%%ymm14\n\t" RONDO_SIGNED_TOKEN(step * 4, RONDO_TOKEN0, 0, 4)                          \
      RONDO_SIGNED_TOKEN(step * 4, RONDO_TOKEN1, 1, 5) RONDO_SIGNED_TOKEN(step * 4, RONDO_TOKEN2, 2, 6) \
          RONDO_SIGNED_TOKEN(step * 4, RONDO_TOKEN3, 3, 7)
#define RONDO_SIGNED_ZERO(i) "vpxor %%ymm" #i ",%%ymm" #i ",%%ymm" #i "\n\t"
#define RONDO_SIGNED_BODY                                                                                          \
  "vpcmpeqw %%ymm15,%%ymm15,%%ymm15\n\tvpsrlw $15,%%ymm15,%%ymm15\n\t" RONDO_SIGNED_ZERO(0) RONDO_SIGNED_ZERO(1)   \
      RONDO_SIGNED_ZERO(2) RONDO_SIGNED_ZERO(3) RONDO_SIGNED_ZERO(4) RONDO_SIGNED_ZERO(5) RONDO_SIGNED_ZERO(6)     \
          RONDO_SIGNED_ZERO(7) RONDO_SIGNED_STEP(0) RONDO_SIGNED_STEP(1) RONDO_SIGNED_STEP(2) RONDO_SIGNED_STEP(3) \
              RONDO_SIGNED_STEP(4) RONDO_SIGNED_STEP(5) RONDO_SIGNED_STEP(6) RONDO_SIGNED_STEP(7)
#define RONDO_SIGNED_CLOBBERS , "ymm13", "ymm14", "ymm15"

// i32 sums over a block of 32.
[[gnu::always_inline]] inline void DotSigned(const uint8_t* w, const int8_t* x, int64_t stride, Tile16x4* sums) {
  RONDO_DOT_RUN(RONDO_SIGNED_BODY, RONDO_SIGNED_CLOBBERS);
}

#undef RONDO_TOKEN0
#undef RONDO_TOKEN1
#undef RONDO_TOKEN2
#undef RONDO_TOKEN3
#undef RONDO_DOT_FIRST
#undef RONDO_DOT_NEXT
#undef RONDO_DOT_STEP
#undef RONDO_DOT_BODY2
#undef RONDO_DOT_BODY4
#undef RONDO_DOT_BODY8
#undef RONDO_DOT_RUN
#undef RONDO_SIGNED_HALF
#undef RONDO_SIGNED_TOKEN
#undef RONDO_SIGNED_STEP
#undef RONDO_SIGNED_ZERO
#undef RONDO_SIGNED_BODY
#undef RONDO_SIGNED_CLOBBERS

}  // namespace
}  // namespace rondo::simd
